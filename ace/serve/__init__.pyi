# What `import ace.serve` offers; loaded on first use.
from .mcp_server import mcp_server as mcp_server
from .shared_memory import (
    Lesson as Lesson,
    LessonReason as LessonReason,
    Noted as Noted,
    Recall as Recall,
    Remembered as Remembered,
    SharedMemory as SharedMemory,
)
