// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"weir/bpf/headers"
	"weir/kernel/testutil"
)

// asks holds conditions by policy key.
type asks map[string]string

// someConditions returns conditions with few values, so that packets often match.
func someConditions(r *rand.Rand) asks {
	c := asks{}
	give := func(key string, values ...string) {
		if r.IntN(2) == 0 {
			c[key] = values[r.IntN(len(values))]
		}
	}
	give("source", "2001:db8:1::/48", "2001:db8:1::1", "2001:db8:1::/65", "2001:db8:1:8000::/49", "::/0", "2001:db8:1::1/128")
	give("protocol", "tcp", "udp", "6", "17")
	give("dscp", "0", "46")
	if r.IntN(2) == 0 {
		give("port", "1000", "2000", "256")
	} else {
		give("source_port", "1000", "2000", "256")
		give("destination_port", "1000", "2000", "256")
	}
	return c
}

func (c asks) text() string {
	all := []string{"namespace: 123", "trace: [node]"}
	for key, value := range c {
		all = append(all, fmt.Sprintf("%s: %q", key, value))
	}
	return strings.Join(all, ", ")
}

// someFrame returns a frame with few sources, ports, protocols and classes. Some are fragments,
// some have extension headers, some end before the ports.
func someFrame(r *rand.Rand) []byte {
	frame := packet(0, nil, r.IntN(20))
	ip := frame[ethernet:]
	ip[1] = []byte{0, 0, 0x80, 0x10}[r.IntN(4)] // DSCP 46 begins in the previous byte
	if ip[1] == 0x80 {
		ip[0] |= 0xb
	}
	ip[6] = []byte{17, 17, 6, 6, 58, 44, 59}[r.IntN(7)]
	if bit := r.IntN(160); bit < 128 && r.IntN(2) == 0 {
		ip[8+bit/8] ^= 0x80 >> (bit % 8)
	}
	ports := []uint16{1000, 2000, 256, 1}
	binary.BigEndian.PutUint16(ip[40:], ports[r.IntN(4)])
	binary.BigEndian.PutUint16(ip[42:], ports[r.IntN(4)])
	if r.IntN(3) == 0 {
		chains := headers.Chains()
		frame = headers.Insert(frame, chains[r.IntN(len(chains))].Headers...)
	}
	if r.IntN(12) == 0 {
		return frame[:atOptions+r.IntN(4)]
	}
	return frame
}

// judgeBits reports whether an address has a prefix of someConditions.
func judgeBits(address []byte, prefix string) bool {
	const head = "001000000000000100001101101110000000000000000001" // 2001:db8:1
	host := head + strings.Repeat("0", 79) + "1"
	of := map[string]string{"::/0": "", "2001:db8:1::/48": head, "2001:db8:1:8000::/49": head + "1",
		"2001:db8:1::/65": head + strings.Repeat("0", 17), "2001:db8:1::1": host, "2001:db8:1::1/128": host}[prefix]
	var bits strings.Builder
	for _, o := range address {
		fmt.Fprintf(&bits, "%08b", o)
	}
	return strings.HasPrefix(bits.String(), of)
}

// judged reports whether a frame matches, by RFC 8200's figure of the header, the header chain, and
// docs/formats/ioam.md.
func (c asks) judged(frame []byte) bool {
	ip := frame[ethernet:]
	upper := headers.Read(ip)
	next := upper.Protocol
	var from, to string
	if (next == 6 || next == 17) && !upper.Later && len(ip) >= upper.At+4 {
		ports := ip[upper.At:]
		from, to = fmt.Sprint(int(ports[0])*256+int(ports[1])), fmt.Sprint(int(ports[2])*256+int(ports[3]))
	}
	for key, value := range c {
		var has bool
		switch key {
		case "source":
			has = judgeBits(ip[8:24], value)
		case "protocol":
			has = map[string]byte{"tcp": 6, "udp": 17, "6": 6, "17": 17}[value] == next
		case "dscp":
			has = fmt.Sprint((int(ip[0])%16*16+int(ip[1])/16)/4) == value
		case "port":
			has = from == value || to == value
		case "source_port":
			has = from == value
		case "destination_port":
			has = to == value
		}
		if !has {
			return false
		}
	}
	return true
}

// Random packets get options and count if they match random conditions of a policy. Others stay
// unchanged.
func TestConditionsAreTheJudges(t *testing.T) {
	b, r := newBench(t, aNode(full)), testutil.Rand(t)
	met, all := 0, 0
	for range 300 {
		c := someConditions(r)
		p, err := Parse("version: 1\nioam: {node: 1, interfaces: {lo: {roles: [egress]}}, namespaces: {123: {}}}\nscopes: {a: {prefix: \"2001:db8:2::/48\", ioam: {" + c.text() + "}}}\n")
		if err != nil {
			t.Fatalf("%v: %v", c, err)
		}
		b.again(aNode(full), aScope(*EncapsulationOf(p.Scopes[0])))
		want := uint64(0)
		for range 20 {
			frame := someFrame(r)
			is := c.judged(frame)
			if is {
				want++
			}
			verdict, got := b.run(b.objects.IoamEgress, frame, skb{})
			if verdict != unspec || !is && !bytes.Equal(got, frame) || is && frame[ethernet+6] == 17 && len(got) == len(frame) {
				t.Fatalf("%v: verdict %d, to be encapsulated: %t\n%x became\n%x", c, int32(verdict), is, frame, got)
			}
			all++
		}
		counts, err := b.scopeCounts(3)
		if err != nil {
			t.Fatal(err)
		}
		if counts.Packets != want {
			t.Fatalf("%v: %d packets were counted, the judge says %d", c, counts.Packets, want)
		}
		met += int(want)
	}
	if share := met * 100 / all; share < 10 || share > 90 {
		t.Errorf("%d %% of the packets had what was asked for: the test tells nothing", share)
	}
}

// Plans and status show the conditions of a scope.
func TestConditionsAreSaid(t *testing.T) {
	p, err := Parse("version: 1\nioam: {node: 1, interfaces: {eth0: {roles: [egress]}}}\nscopes: {a: {prefix: \"2001:db8:2::/48\", " +
		"ioam: {trace: [node], source: \"2001:db8:1::/48\", protocol: tcp, source_port: 443, destination_port: 50000, dscp: 46}}}\n")
	if err != nil {
		t.Fatal(err)
	}
	const want = "from 2001:db8:1::/48, protocol 6, source port 443, destination port 50000, DSCP 46"
	if got := EncapsulationOf(p.Scopes[0]).Summary(); !strings.HasSuffix(got, want) {
		t.Errorf("%q, want %q at its end", got, want)
	}
}
