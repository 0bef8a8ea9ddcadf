"""A model provider that the analyst runs: it answers Anthropic's Messages from a list of turns."""

import http.server
import json
import threading


class Model:
    """Serves as long as this program runs; keeps every request."""

    def __init__(self, turns):
        self.turns, self.requests = turns, []
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.model = self
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def texts(self):
        """All that was sent to it, as text."""
        return json.dumps(self.requests, ensure_ascii=False)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        model = self.server.model
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        model.requests.append(request)
        answered = sum(message["role"] == "assistant" for message in request["messages"])
        name, given = model.turns[min(answered, len(model.turns) - 1)]
        block = {"type": "tool_use", "id": f"call_{answered}", "name": name, "input": given}
        usage = {"input_tokens": 1000, "output_tokens": 100}
        message = {
            "id": f"msg_{answered}", "type": "message", "role": "assistant", "model": request["model"],
            "content": [block], "stop_reason": "tool_use", "stop_sequence": None, "usage": usage,
        }  # fmt: skip
        if not request.get("stream"):
            return self.answer("application/json", json.dumps(message))
        events = [
            {"type": "message_start", "message": message | {"content": [], "stop_reason": None}},
            {"type": "content_block_start", "index": 0, "content_block": block | {"input": {}}},
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "input_json_delta", "partial_json": json.dumps(given)},
            },
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None}, "usage": usage},
            {"type": "message_stop"},
        ]
        self.answer("text/event-stream", "".join(f"event: {it['type']}\ndata: {json.dumps(it)}\n\n" for it in events))

    def answer(self, kind, text):
        body = text.encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
