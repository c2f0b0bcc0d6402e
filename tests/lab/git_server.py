"""Serves git repositories by HTTPS, to one user with a password; runs in a host.

Arguments: the port, the certificate with its key, the directory of the repositories, `user:password`.
"""

from __future__ import annotations

import base64
import http.server
import ssl
import subprocess
import sys

PORT, CERTIFICATE, TOP, ACCOUNT = sys.argv[1:]
WANTED = "Basic " + base64.b64encode(ACCOUNT.encode()).decode()


class Handler(http.server.BaseHTTPRequestHandler):
    """Passes each request to git's own CGI program."""

    def serve(self) -> None:
        """Answer one request."""
        if self.headers.get("Authorization") != WANTED:
            self.answer(401, [("WWW-Authenticate", 'Basic realm="git"')], b"")
            return
        path, _, query = self.path.partition("?")
        environment = {
            "PATH": "/usr/bin:/bin",
            "GIT_PROJECT_ROOT": TOP,
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        argv = ["git", "http-backend"]
        told = subprocess.run(argv, env=environment, input=body, stdout=subprocess.PIPE, check=False).stdout
        head, _, content = told.partition(b"\r\n\r\n")
        headers = [tuple(line.split(": ", 1)) for line in head.decode().split("\r\n")]
        status = next((value for name, value in headers if name == "Status"), "200")
        self.answer(int(status[:3]), headers, content)

    do_GET = do_POST = serve  # noqa: N815 - the names that http.server calls

    def answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        """Send one answer."""
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


server = http.server.ThreadingHTTPServer(("127.0.0.1", int(PORT)), Handler)
context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
context.load_cert_chain(CERTIFICATE)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
