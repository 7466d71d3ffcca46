#!/usr/bin/env python3
"""A small signal in the old style: signal.py NAMESPACE NAME APP"""
import json
import socket
import struct
import sys

ACK = b'\x01'
ERROR = b'\x02'


def get_answer(parameters, metrics):
    points = metrics.get('load')
    cpus = None
    if points:
        load = points[-1][1]
        if type(load) not in (int, float):
            raise TypeError('load is not a number')
        cpus = 2 * load
    return {'Resources': {'cpus': cpus, 'mem': parameters.get('mem')}}


def read_hello(conn):
    # the hello has no frame: take one JSON value, keep what follows it
    data = conn.recv(4096)
    if not data:
        raise EOFError
    _, end = json.JSONDecoder().raw_decode(data.decode('latin-1'))
    return json.loads(data[:end].decode('utf-8'))['parameters'], data[end:]


def read_exactly(conn, size, data=b''):
    while len(data) < size:
        piece = conn.recv(min(size - len(data), 4096))
        if not piece:
            raise EOFError
        data += piece
    return data


def run(conn):
    parameters, rest = read_hello(conn)
    while True:
        length, = struct.unpack('>I', read_exactly(conn, 4, rest))
        rest = b''
        conn.send(ACK)
        data = read_exactly(conn, length)
        try:
            answer = get_answer(parameters, json.loads(data.decode('utf-8'))['metrics'])
            response = json.dumps(answer, allow_nan=False).encode('utf-8')
        except Exception as e:
            print('bad data: %r' % e, file=sys.stderr)
            conn.send(ERROR)
            continue
        conn.send(ACK)
        conn.send(response)


def main():
    namespace, name, app = sys.argv[1:]
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind('\0%s-%s-%s-socket' % (namespace, name, app))
    listener.listen(1)
    while True:
        conn, _ = listener.accept()
        try:
            run(conn)
        except (EOFError, OSError):
            pass  # the peer has gone
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            print('bad hello: %r' % e, file=sys.stderr)  # it has no reply
        conn.close()


if __name__ == '__main__':
    main()
