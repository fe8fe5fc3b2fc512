"""From lessons to typed changes of the playbook, and the gate that they pass."""

from ace.curator.curator import Curator
from ace.curator.gate import AcceptanceGate, Gate, GateVerdict

__all__ = ["AcceptanceGate", "Curator", "Gate", "GateVerdict"]
