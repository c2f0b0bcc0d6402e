"""A guest book: shows its lines and accepts new ones. `/settings` shows the settings with which it was started."""

import html
import http.server
import json
import pathlib
import sqlite3
import sys
import urllib.parse

SETTINGS = json.loads(pathlib.Path(sys.argv[1]).read_text())
BOOK = "/var/lib/guestbook/book.db"


def lines(add: str = "") -> list[str]:
    """Add a line, if one is given, and return all lines of the book."""
    with sqlite3.connect(BOOK) as book:
        book.execute("create table if not exists lines (text)")
        if add:
            book.execute("insert into lines values (?)", (add,))
        return [text for (text,) in book.execute("select text from lines")]


class Page(http.server.BaseHTTPRequestHandler):
    """Handler of one request."""

    def do_GET(self) -> None:
        """Show the whole book, or the settings."""
        if self.path == "/settings":
            self.answer(json.dumps(SETTINGS), "application/json")
            return
        items = "".join(f"<li>{html.escape(line)}</li>" for line in lines())
        form = "<form method=post><input name=line><button>Write</button></form>"
        self.answer(f"<h1>{html.escape(SETTINGS['greeting'])}</h1><ul>{items}</ul>{form}", "text/html")

    def do_POST(self) -> None:
        """Add a line."""
        body = self.rfile.read(min(int(self.headers.get("content-length", 0)), 4096)).decode(errors="replace")
        lines(urllib.parse.parse_qs(body).get("line", [""])[0])
        self.send_response(303)
        self.send_header("location", "/")
        self.end_headers()

    def answer(self, text: str, kind: str) -> None:
        """Send a page."""
        self.send_response(200)
        self.send_header("content-type", f"{kind}; charset=utf-8")
        self.end_headers()
        self.wfile.write(text.encode())


http.server.ThreadingHTTPServer(("127.0.0.1", SETTINGS["port"]), Page).serve_forever()
