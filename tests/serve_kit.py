"""What tests of the served memory share."""


def conversation(order="o-17", tool="refund", task="Refund the order {}", answer="done"):
    call = {"id": "c1", "function": {"name": tool, "arguments": f'{{"order": "{order}"}}'}}
    return [
        {"role": "user", "content": task.format(order)},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": answer},
        {"role": "assistant", "content": "Refunded."},
    ]
