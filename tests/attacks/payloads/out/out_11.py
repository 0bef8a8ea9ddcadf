# args: [dir=/tmp/out11]
# OUT-11: media that grow when decoded: a picture of 50 000 by 50 000 points, nested
# entities, a font and a document with absurd tables. The host must never decode them.
import os
import struct
import sys
import zlib

work = sys.argv[1] if len(sys.argv) > 1 else "/tmp/out11"
os.makedirs(work, exist_ok=True)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(side):
    # One bit a point; the rows are fed piece by piece, so that making it stays cheap.
    press, packed = zlib.compressobj(9), []
    row = b"\x00" * (1 + side // 8)
    for _ in range(side // 100):
        packed.append(press.compress(row * 100))
    packed.append(press.flush())
    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"".join(packed)) + chunk(b"IEND", b"")


def laughs():
    lines = ['<?xml version="1.0"?><!DOCTYPE svg [<!ENTITY a0 "ha">']
    lines += [f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12)]
    return ("\n".join(lines) + ']><svg xmlns="http://www.w3.org/2000/svg"><text>&a11;</text></svg>').encode()


def pdf():
    body = zlib.compress(zlib.compress(b"\x00" * (16 << 20), 9), 9)
    head = f"%PDF-1.7\n1 0 obj<</Length {len(body)}/Filter[/FlateDecode/FlateDecode]>>stream\n".encode()
    tail = b"\nendstream endobj\n2 0 obj 2 0 R endobj\ntrailer<</Root 2 0 R/Size 2147483647>>\n"
    return head + body + tail


files = {
    "bomb.png": png(50000),
    "bomb.svg": laughs(),
    "bomb.pdf": pdf(),
    "bomb.ttf": b"\x00\x01\x00\x00\xff\xff" + b"\xff" * 6 + b"glyf" + b"\xff" * 12,
    "bomb.gif": b"GIF89a\xff\xff\xff\xff\xf7\x00\x00" + b"\x00" * 768 + b",\x00\x00\x00\x00\xff\xff\xff\xff\x00\x02\x00;",
    "bomb.wav": b"RIFF\xff\xff\xff\xffWAVEfmt \xff\xff\xff\xff",
}
for name, data in files.items():
    with open(f"{work}/{name}", "wb") as file:
        file.write(data)
    print(f"NOTE FILE {work}/{name} {len(data)}")
print("HELD planted; the host's memory and time while it moves them decide")
