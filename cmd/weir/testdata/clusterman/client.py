#!/usr/bin/env python3
"""A small autoscaler in the old style: client.py NAMESPACE NAME APP < input.json"""
import json
import socket
import struct
import sys
import time

ACK = b'\x01'
PIECE = 4096


def connect(address):
    for attempt in range(3):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(address)
            return sock
        except ConnectionRefusedError:
            sock.close()
            if attempt == 2:
                raise
            time.sleep(5)


def evaluate(sock, metrics):
    body = json.dumps({'metrics': metrics, 'timestamp': int(time.time())}).encode('utf-8')
    sock.send(struct.pack('>I', len(body)))
    ack = sock.recv(4096)
    if ack != ACK:
        raise ValueError('length answered with %r' % ack)
    for i in range(0, len(body), PIECE):
        sock.send(body[i:i + PIECE])
    response = sock.recv(4096)
    if response[:1] != ACK:
        raise ValueError('data answered with %r' % response)
    # the answer is the rest of that packet, or the next one
    response = response[1:] or sock.recv(4096)
    try:
        answer = json.loads(response.decode('utf-8'))
        unknown = set(answer['Resources']) - {'cpus', 'mem', 'disk', 'gpus'}
    except (ValueError, KeyError, TypeError) as e:
        raise ValueError('bad answer %r: %r' % (response, e))
    if not isinstance(answer['Resources'], dict) or unknown:
        raise ValueError('bad resources in %r' % response)
    return answer


def main():
    namespace, name, app = sys.argv[1:]
    given = json.load(sys.stdin)
    hello = json.dumps({'parameters': given['parameters']}).encode('utf-8')
    sock = connect('\0%s-%s-%s-socket' % (namespace, name, app))
    if sock.send(hello) != len(hello):
        raise ValueError('hello not sent whole')
    for _ in range(3):
        print(json.dumps(evaluate(sock, given['metrics'])), flush=True)
    sock.close()


if __name__ == '__main__':
    try:
        main()
    except Exception as e:
        sys.exit('%s: %s' % (type(e).__name__, e))
