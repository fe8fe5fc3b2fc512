# One playbook for a team: docker build -t ace . && docker run -v ace:/data -p 8137:8137 ace
FROM python:3.12-slim
WORKDIR /src
COPY . .
RUN pip install --no-cache-dir -c constraints.txt '.[serve,postgres]' && rm -rf /src/* && mkdir /data && chown nobody /data
WORKDIR /data
ENV HOME=/data HF_HUB_OFFLINE=1
USER nobody
VOLUME /data
EXPOSE 8137
STOPSIGNAL SIGINT
HEALTHCHECK CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8137/readyz', timeout=3)"]
ENTRYPOINT ["ace", "serve"]
CMD ["team.db", "--token-file", "tokens.toml", "--host", "0.0.0.0", "--name", "localhost", "--no-browser", "--log", "-"]
