#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""RFC 2544 benchmarks against a tester with the IETF model (draft-ietf-bmwg-network-tester-cfg).

Throughput, latency, frame loss rate and back-to-back frames, over NETCONF with ncclient. The
revision of the model is found in the YANG library. A trial is the model's own: create the analyzer,
commit, create the generator with total-frames, commit, wait, read the counters.
"""
import argparse
import base64
import csv
import sys
import time
import xml.etree.ElementTree as ET

import ncclient.transport.session
from ncclient import manager

ncclient.transport.session.TICK = 0.001  # the default waits 100 ms for each request
IF = "urn:ietf:params:xml:ns:yang:ietf-interfaces"
GENERATOR = "urn:ietf:params:xml:ns:yang:ietf-traffic-generator"
ANALYZER = "urn:ietf:params:xml:ns:yang:ietf-traffic-analyzer"
LIBRARY = "urn:ietf:params:xml:ns:yang:ietf-yang-library"
WIRE_GAP = 20  # octets: preamble and minimum gap


def header(size, source, destination):
    """Ethernet, IPv4 and UDP to port 7 (RFC 2544 appendix C), without a UDP checksum."""
    ip = bytearray(bytes.fromhex("4500") + (size - 18).to_bytes(2, "big") + bytes.fromhex("000000000a110000c6120001c6130001"))
    total = sum(int.from_bytes(ip[i:i + 2], "big") for i in range(0, 20, 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    ip[10:12] = (0xFFFF - total).to_bytes(2, "big")
    udp = (49184).to_bytes(2, "big") + (7).to_bytes(2, "big") + (size - 38).to_bytes(2, "big") + b"\0\0"
    mac = lambda text: bytes.fromhex(text.replace(":", ""))
    return mac(destination) + mac(source) + b"\x08\x00" + bytes(ip) + udp


class Tester:
    """One session with one port to send from and one to receive on; they may be on two nodes."""

    def __init__(self, sender, receiver, tx, rx):
        self.sender, self.receiver, self.tx, self.rx = sender, receiver, tx, rx
        reply = sender.get(("subtree", f'<modules-state xmlns="{LIBRARY}"/>')).data_xml
        names = {m.findtext(f"{{{LIBRARY}}}name"): m.findtext(f"{{{LIBRARY}}}revision")
                 for m in ET.fromstring(reply).iter(f"{{{LIBRARY}}}module")}
        self.revision = names.get("ietf-traffic-generator")
        if not self.revision:
            sys.exit("the node has no module ietf-traffic-generator")
        self.old = self.revision < "2026"
        self.speed = int(self.state(sender, tx).findtext(f"{{{IF}}}speed"))

    def state(self, node, port):
        reply = node.get(("subtree", f'<interfaces xmlns="{IF}"><interface><name>{port}</name></interface></interfaces>')).data_xml
        return ET.fromstring(reply).find(f".//{{{IF}}}interface")

    def edit(self, node, port, content):
        node.edit_config(target="candidate", config=f'''<config xmlns="urn:ietf:params:xml:ns:netconf:base:1.0" xmlns:nc="urn:ietf:params:xml:ns:netconf:base:1.0">
<interfaces xmlns="{IF}"><interface><name>{port}</name><type xmlns:i="urn:ietf:params:xml:ns:yang:iana-if-type">i:ethernetCsmacd</type>
{content}</interface></interfaces></config>''')
        node.commit()

    def trial(self, size, gap, frames, args):
        """Sends frames and returns the number received, and the latency in ns or None."""
        data = header(size, args.source_mac, args.destination_mac)
        text = data.hex().upper() if self.old else base64.b64encode(data).decode()
        name = "interframe-gap" if self.old else "gap"
        for node, port, tag, space in ((self.sender, self.tx, "traffic-generator", GENERATOR), (self.receiver, self.rx, "traffic-analyzer", ANALYZER)):
            self.edit(node, port, f'<{tag} xmlns="{space}" nc:operation="remove"/>')
        self.edit(self.receiver, self.rx, f'<traffic-analyzer xmlns="{ANALYZER}"/>')
        self.edit(self.sender, self.tx, f'''<traffic-generator xmlns="{GENERATOR}"><testframe-type>dynamic</testframe-type>
<frame-size>{size}</frame-size><frame-data>{text}</frame-data><{name}>{gap}</{name}><total-frames>{frames}</total-frames></traffic-generator>''')
        time.sleep(frames * (size + gap) * 8 / self.speed + args.wait)
        own = self.state(self.sender, self.tx).find(".//{urn:weir:yang:weir-tester}generation")
        valid = own is None or (own.findtext("{urn:weir:yang:weir-tester}lag") == "0" and
                                own.findtext("{urn:weir:yang:weir-tester}frames") == str(frames))
        stats = self.state(self.receiver, self.rx).find(f".//{{{ANALYZER}}}" + ("testframe-stats" if self.old else "testframe-statistics"))
        average = stats.findtext(f"{{{ANALYZER}}}latency/{{{ANALYZER}}}average")
        return int(stats.findtext(f"{{{ANALYZER}}}pkts")), average and int(average), valid

    def repeated(self, size, gap, frames, args):
        """A trial that the tester could not offer in time is repeated."""
        for _ in range(args.repetitions):
            received, latency, valid = self.trial(size, gap, frames, args)
            if valid:
                return received, latency, "valid"
        return received, latency, "invalid: the tester was late"


def gap_of(speed, size, rate):
    """The gap in octets for a rate in frame/s."""
    return max(WIRE_GAP, round(speed / 8 / rate) - size)


def throughput(t, size, args):
    low, high = 0.0, min(args.max_rate, t.speed / 8 / (size + WIRE_GAP))
    rate, best, state = high, None, "valid"
    while high - low > args.resolution * high:
        frames = max(1, int(rate * args.duration))
        received, latency, state = t.repeated(size, gap_of(t.speed, size, rate), frames, args)
        if state != "valid":
            break  # the tester could not offer the rate: no statement about the device
        if received == frames:
            low, best = rate, (rate, latency)
            if low >= high:
                break
        else:
            high = rate
        rate = (low + high) / 2
    return (best or (0.0, None)) + (state,)


def back_to_back(t, size, args):
    low, high = 0, args.burst
    while high - low > max(1, args.burst // 100):
        frames = high if low == 0 and high == args.burst else (low + high) // 2
        received, _, _ = t.repeated(size, WIRE_GAP, frames, args)
        if received == frames:
            low = frames
            if frames == args.burst:
                break
        else:
            high = frames
    return low


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--host", required=True)
    p.add_argument("--port", type=int, default=830)
    p.add_argument("--receiver-host", help="the node of the receiving port, if it is another one")
    p.add_argument("--receiver-port", type=int, default=830)
    p.add_argument("--user", required=True)
    p.add_argument("--key", help="private key file")
    p.add_argument("--from", dest="tx", required=True, help="port to send from")
    p.add_argument("--to", dest="rx", required=True, help="port to receive on")
    p.add_argument("--source-mac", default="02:00:00:00:00:01")
    p.add_argument("--destination-mac", default="02:00:00:00:00:02")
    p.add_argument("--sizes", default="64,128,256,512,1024,1280,1518")
    p.add_argument("--duration", type=float, default=60, help="seconds of a trial")
    p.add_argument("--wait", type=float, default=2, help="seconds after a trial")
    p.add_argument("--resolution", type=float, default=0.01)
    p.add_argument("--repetitions", type=int, default=3, help="attempts for a valid trial")
    p.add_argument("--max-rate", type=float, default=1e12, help="frame/s")
    p.add_argument("--burst", type=int, default=10000, help="longest burst of back-to-back frames")
    args = p.parse_args()
    connect = lambda host, port: manager.connect(host=host, port=port, username=args.user, key_filename=args.key,
                                                 hostkey_verify=False, allow_agent=False, look_for_keys=False)
    node = connect(args.host, args.port)
    other = connect(args.receiver_host, args.receiver_port) if args.receiver_host else node
    t = Tester(node, other, args.tx, args.rx)
    print(f"# model {t.revision}, {t.speed} bit/s", file=sys.stderr)
    out = csv.writer(sys.stdout)
    out.writerow(["test", "frame_size_octets", "rate_fps", "result", "unit", "trial"])
    for size in map(int, args.sizes.split(",")):
        rate, latency, state = throughput(t, size, args)
        out.writerow(["throughput", size, f"{rate:.1f}", f"{rate:.1f}", "frame/s", state])
        if latency is not None:
            out.writerow(["latency", size, f"{rate:.1f}", latency, "ns", state])
        line = min(args.max_rate, t.speed / 8 / (size + WIRE_GAP))
        for percent in (100, 90, 80):
            frames = max(1, int(line * percent / 100 * args.duration))
            received, _, state = t.repeated(size, gap_of(t.speed, size, line * percent / 100), frames, args)
            out.writerow(["frame-loss", size, f"{line * percent / 100:.1f}", f"{100 * (frames - received) / frames:.4f}", "%", state])
        out.writerow(["back-to-back", size, "", back_to_back(t, size, args), "frames", ""])
        sys.stdout.flush()


if __name__ == "__main__":
    main()
