// Follows the journal, and lets the keyboard review. Every page works without this file.
const dark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};

document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-theme-button]")) return;
  const theme = dark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  localStorage.setItem("theme", theme);
});

// What somebody is writing is never replaced by what others change.
const writing = () => {
  const at = document.activeElement;
  return Boolean(at && at.closest("#live") && at.matches("textarea, input:not([type=hidden]), select")) ||
    Boolean(document.querySelector("#live details.edit[open]"));
};

// A browser has six connections to a server: only the page that is looked at holds one.
let seen = Number(document.body.dataset.revision);
let source = null;
const follow = () => {
  if (document.hidden || source) return;
  source = new EventSource("/live");
  source.addEventListener("revision", (event) => {
    const revision = Number(event.data);
    if (revision === seen) return;
    seen = revision;
    if (writing()) document.querySelector("#stale")?.removeAttribute("hidden");
    else document.body.dispatchEvent(new Event("revision"));
  });
};
const rest = () => { source?.close(); source = null; };
follow();
document.addEventListener("visibilitychange", () => (document.hidden ? rest() : follow()));
addEventListener("pagehide", rest);
addEventListener("pageshow", follow);

// An answer without the part that is looked for, such as an error, must not blank the page.
document.addEventListener("htmx:before:swap", (event) => {
  if (!String(event.detail?.ctx?.text ?? "").includes('id="live"')) event.preventDefault();
});

// Review: j and k move, a approves, r refuses, e edits, u takes the last decision back.
const cards = () => [...document.querySelectorAll("[data-card]")];
let here = "";

const move = (step) => {
  const all = cards();
  if (!all.length) return;
  const at = all.findIndex((card) => card.dataset.card === here);
  const next = all[Math.min(Math.max(at < 0 ? 0 : at + step, 0), all.length - 1)];
  all.forEach((card) => card.classList.toggle("here", card === next));
  here = next.dataset.card;
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
};

const press = (name) => {
  const card = cards().find((one) => one.dataset.card === here) ?? cards()[0];
  card?.querySelector(`form[data-do=${name}]`)?.requestSubmit();
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("input, textarea, select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const act = {
    j: () => move(1),
    k: () => move(-1),
    a: () => press("approve"),
    r: () => press("reject"),
    u: () => document.querySelector("form[data-do=undo]")?.requestSubmit(),
    e: () => {
      const edit = (cards().find((one) => one.dataset.card === here) ?? cards()[0])?.querySelector("details.edit");
      if (edit) { edit.open = true; edit.querySelector("textarea").focus(); }
    },
    "/": () => {
      const search = document.querySelector("input[type=search]");
      if (search) search.focus(); else location.assign("/lessons");
    },
  }[event.key];
  if (act) { event.preventDefault(); act(); }
});

if (cards().length) move(0);
document.addEventListener("htmx:after:swap", () => { if (cards().length) move(0); });
document.documentElement.dataset.keys = "ready";
