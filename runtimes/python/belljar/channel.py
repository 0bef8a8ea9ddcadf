"""Frames on the context's descriptor, and the text streams that end in it.

A frame is a four byte little-endian length and that many bytes of JSON. A
frame must never be cut short, or the host loses the rest of the stream. So
signal handlers written in Python do not raise while one is being written:
they see `Channel.send` or `Channel.text` on the stack and leave a note.
"""

import codecs
import io
import json
import os
import socket
import threading

from .alarm import Alarm

MESSAGE_LIMIT = 32 << 20
TEXT_HELD = 4096
TEXT_FRAME = 256 << 10

quote = json.encoder.encode_basestring
# Everything that reaches this encoder has been through `values.plain`.
encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def to_bytes(text):
    """UTF-8 of `text`; a surrogate without its partner becomes U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


class Channel:
    def __init__(self, descriptor):
        self.descriptor = descriptor
        self.unread = bytearray()
        # Which cell output belongs to. It stays after the cell has ended, for
        # threads that the cell left behind.
        self.cell = None
        # Whether an interrupt may raise in the main thread.
        self.running = False
        self.interrupted = False
        # Whether a message has come that is not being carried out yet.
        self.taking = False
        self.socket = None
        self.detached = False
        # Set while the zygote forks a context: that child keeps the channel.
        self.keep = False
        self.lock = threading.RLock()
        self.kind = None
        self.parts = []
        self.held = 0
        self.alarm = Alarm(self.on_alarm)

    def receive(self):
        """The next message, or `None` when the host has closed its end."""
        unread = self.unread
        while True:
            if len(unread) >= 4:
                end = 4 + int.from_bytes(unread[:4], "little")
                if len(unread) >= end:
                    body = unread[4:end]
                    del unread[:end]
                    return json.loads(body)
            try:
                # Wait first, then say that something is here, then take it: an
                # interrupt at any point after belongs to what was sent.
                self.taking = False
                if self.socket is None:
                    self.socket = socket.socket(fileno=self.descriptor)
                self.socket.recv(1, socket.MSG_PEEK)
                self.taking = True
                chunk = os.read(self.descriptor, 65536)
            except KeyboardInterrupt:
                # User code may have put Python's own handler back.
                continue
            if not chunk:
                return None
            unread += chunk

    def send(self, event):
        """Sends what is held back of the streams, then `event`."""
        frame = to_bytes(encode(event))
        if len(frame) > MESSAGE_LIMIT:
            frame = to_bytes(encode(shrunk(event)))
        with self.lock:
            self._flush()
            self._write(frame)
        if self.interrupted and self.running:
            self.raise_interrupt()

    def text(self, kind, text):
        """Takes output of a stream; a whole line goes out at once."""
        with self.lock:
            if kind is not self.kind:
                self._flush()
                self.kind = kind
            self.parts.append(text)
            self.held += len(text)
            # `print` writes the end of a line separately, so a part of a line
            # waits for the rest, but not longer than the alarm.
            if "\n" in text or "\r" in text or self.held >= TEXT_HELD or not self.alarm.arm():
                self._flush()
        if self.interrupted and self.running:
            self.raise_interrupt()

    def flush(self):
        if self.parts:
            with self.lock:
                self._flush()
        if self.interrupted and self.running:
            self.raise_interrupt()

    def over(self):
        """What was asked for is done: an interrupt that comes now is for
        nothing, unless the next message is here already."""
        self.taking = False
        self.interrupted = False

    def raise_interrupt(self):
        self.interrupted = False
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        self.interrupted = True

    def busy(self, frame):
        """Whether the stack of a signal handler is inside a write."""
        while frame is not None:
            if frame.f_code in WRITERS:
                return True
            frame = frame.f_back
        return False

    def on_alarm(self, _number, frame):
        if self.busy(frame):
            self.alarm.arm()
        else:
            self.flush()

    def detach(self):
        """In a process that user code forked: its output must not mix into
        the frames of its parent, so it goes to descriptors 1 and 2."""
        self.detached = True
        self.parts = []
        self.held = 0
        self.lock = threading.RLock()
        self.alarm.forget()
        try:
            os.close(self.descriptor)
        except OSError:
            pass

    def _flush(self):
        if not self.parts:
            return
        text = "".join(self.parts)
        self.parts.clear()
        self.held = 0
        if self.detached:
            write_all(1 if self.kind == "stdout" else 2, text.encode("utf-8", "replace"))
            return
        head = f'{{"ev":"{self.kind}","id":{"null" if self.cell is None else self.cell},"text":'
        for start in range(0, len(text), TEXT_FRAME):
            self._write(to_bytes(head + quote(text[start:start + TEXT_FRAME]) + "}"))

    def _write(self, body):
        if not self.detached:
            try:
                write_all(self.descriptor, len(body).to_bytes(4, "little") + body)
            except BrokenPipeError:
                # The host is gone; nobody can want this cell any more.
                os._exit(0)


WRITERS = {Channel.send.__code__, Channel.text.__code__, Channel.flush.__code__}


def write_all(descriptor, data):
    sent = os.write(descriptor, data)
    while sent < len(data):
        data = data[sent:]
        sent = os.write(descriptor, data)


def shrunk(event):
    """`event` without the values that make it too large."""
    event = dict(event)
    if "data" in event:
        data = event["data"] = dict(event["data"])
        sizes = {mime: len(to_bytes(encode(value))) for mime, value in data.items()}
        notes = []
        for mime in sorted(sizes, key=sizes.get, reverse=True):
            if sum(sizes.values()) <= MESSAGE_LIMIT // 2:
                break
            notes.append(f"[{mime} of {sizes.pop(mime)} bytes left out: too large for one message]")
            del data[mime]
        data["text/plain"] = "\n".join([*notes, *filter(None, [data.get("text/plain")])])
        event["metadata"] = {}
    for key in ("value", "text"):
        if len(event.get(key) or "") > 1 << 20:
            event[key] = event[key][:1 << 20] + f"… [{len(event[key])} characters]"
    if "traceback" in event:
        event["traceback"] = [line[:10_000] for line in event["traceback"][-200:]]
    return event


class Stream(io.TextIOBase):
    """`sys.stdout` or `sys.stderr` of user code."""

    encoding = "utf-8"
    errors = "replace"
    newlines = None
    line_buffering = True

    def __init__(self, channel, kind, descriptor):
        self._channel = channel
        self._kind = kind
        self._descriptor = descriptor
        self.buffer = Bytes(self)
        self.name = f"<{kind}>"
        self.mode = "w"

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if text:
            self._channel.text(self._kind, text)
        return len(text)

    def flush(self):
        self._channel.flush()

    def writable(self):
        return True

    def isatty(self):
        return False

    def fileno(self):
        return self._descriptor

    def reconfigure(self, **_options):
        pass

    def close(self):
        # Closing it would silence every later cell.
        pass


class Bytes(io.RawIOBase):
    """The `buffer` of a stream, for programs that write bytes."""

    def __init__(self, stream):
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, data):
        self._stream.write(self._decoder.decode(bytes(data)))
        return len(data)

    def writable(self):
        return True

    def flush(self):
        self._stream.flush()

    def fileno(self):
        return self._stream.fileno()

    def close(self):
        pass
