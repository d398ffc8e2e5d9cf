"""A local server that speaks the chat-completions protocol, well or badly, as it is told."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def completion(text, tokens=100):
    return {
        "choices": [{"message": {"role": "assistant", "content": text}}],
        "usage": {"total_tokens": tokens},
    }


class ChatServer:
    """Answers each request by the next of ``script`` (the last one for ever): a text, or a function of the
    request handler. Keeps the requests it got."""

    def __init__(self, *script):
        self.script = list(script)
        self.requests = []
        self.headers = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.requests.append(json.loads(body))
                outer.headers.append(dict(self.headers))
                what = outer.script.pop(0) if len(outer.script) > 1 else outer.script[0]
                try:
                    if callable(what):
                        what(self)
                    else:
                        send(self, 200, json.dumps(completion(what)).encode())
                except OSError:
                    pass  # the other side has hung up

            def log_message(self, *about):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *about):
        self._server.shutdown()
        self._server.server_close()


def send(handler, status, body, **headers):
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def status(code, body=b"{}", **headers):
    return lambda handler: send(handler, code, body, **headers)


def raw(body):
    return lambda handler: send(handler, 200, body)


def drip(seconds):
    """One byte now and then: never long enough silent for a socket's time-out."""

    def answer(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        for _ in range(int(seconds / 0.05)):
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.05)

    return answer


def hang_up(handler):
    handler.connection.close()
