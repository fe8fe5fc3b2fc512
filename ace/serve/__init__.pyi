# What `import ace.serve` offers; loaded on first use.
from .mcp_server import mcp_server as mcp_server
from .people import People as People, Person as Person
from .shared_memory import (
    Lesson as Lesson,
    LessonReason as LessonReason,
    Noted as Noted,
    Recall as Recall,
    Remembered as Remembered,
    SharedMemory as SharedMemory,
)
from .web import WebServer as WebServer, web_app as web_app
