// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"
)

// behind puts a routing header of so many segments (RFC 8754) between the IPv6 header of a frame
// and what follows it.
func behind(frame []byte, segments int) []byte {
	const ethernet, ip = 14, 40
	header := make([]byte, 8+16*segments)
	header[0], header[1], header[2], header[4] = frame[ethernet+6], byte(2*segments), 4, byte(segments-1)
	out := append(append(append([]byte{}, frame[:ethernet+ip]...), header...), frame[ethernet+ip:]...)
	out[ethernet+6] = unix.IPPROTO_ROUTING
	binary.BigEndian.PutUint16(out[ethernet+4:], uint16(len(out)-ethernet-ip))
	return out
}

// A datagram is charged before it is cut, for the fragments that it becomes: their headers are sent
// as well, and with extension headers they are most of it.
func TestDatagramsAreChargedForTheirFragments(t *testing.T) {
	const overhead = 14
	for _, c := range []struct {
		name             string
		frame            []byte
		segments, octets uint64
	}{
		{"IPv4, whole", datagram(t, false, 0, 1472), 1, 1500 + overhead},
		{"IPv4, in two", datagram(t, false, 0, 1473), 2, 1501 + 20 + 2*overhead},
		{"IPv4, in three", datagram(t, false, 0, 3000), 3, 3028 + 2*20 + 3*overhead},
		{"IPv6, whole", datagram(t, true, 0, 1452), 1, 1500 + overhead},
		{"IPv6, in three", datagram(t, true, 0, 3000), 3, 3048 + 2*48 + 3*overhead},
		// 1280 - 40 - 1176 - 8 octets are room for 56 of the 2008 that are cut.
		{"IPv6 with a routing header", behind(datagram(t, true, 0, 2000), 73), 36, 3224 + 35*(1216+8) + 36*overhead},
		{"IPv6 with a routing header, whole", behind(datagram(t, true, 0, 40), 2), 1, 40 + 40 + 8 + 40 + overhead},
	} {
		p := plane(t, 1)
		if err := p.Set(0, Egress, Limit{Rate: 1e9, Loopback: true}); err != nil {
			t.Fatal(err)
		}
		if verdict, _ := send(t, p.objects.LimitEgress, c.frame); verdict != pass {
			t.Errorf("%s: verdict %d", c.name, verdict)
		}
		counted, err := p.Counters(0, Egress)
		if err != nil {
			t.Fatal(err)
		}
		if counted.Segments != c.segments || counted.Bytes != c.octets {
			t.Errorf("%s: %d segments of %d octets were charged, want %d of %d", c.name, counted.Segments, counted.Bytes, c.segments, c.octets)
		}
	}
}
