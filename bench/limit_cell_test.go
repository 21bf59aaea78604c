// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/direction"
	"weir/internal/units"
	"weir/kernel/congestion"
	"weir/kernel/ethtool"
	"weir/kernel/netns"
	"weir/kernel/sysctl"
	"weir/kernel/testutil"
	"weir/lab/traffic"
	"weir/modules/cc"
	"weir/modules/limit/police"
)

// limitCell is a path and its load: a congestion control, udp, or quic (quic-go, which has its
// own). Suffixes: "-ecn" with ECN; "-10KB" and so on in consecutive connections of that many bytes;
// "-ingress" limits the receiver, "-forwarded" a router between both; "-10ms" is the round-trip
// time; "-ip6" uses IPv6. "-udp" adds datagrams at one and a half times the rate beside TCP, as one
// flow more, "-quic" a connection of quic-go, and "-flooded" such datagrams at three times the rate
// in the first half of the warm-up. In that half the rate is ten times as high for "-fallen" and a
// tenth for "-risen".
type limitCell struct {
	holder     limitHolder
	from, to   traffic.Endpoint
	router     *netns.Namespace // nil without a router
	network    string
	congestion string
	each       int
	direction  direction.Direction
	beside     string        // limitLoad's
	flooded    bool          // the load beside TCP ends in the warm-up
	first      units.BitRate // rate in the first half of the warm-up, in percent of the rate; 0 is unchanged
}

// newLimitCell makes the path for a load.
func newLimitCell(b *testing.B, load string) limitCell {
	b.Helper()
	testutil.NeedRoot(b)
	var c limitCell
	words := strings.Split(load, "-")
	var delay time.Duration
	ecn := false
	for _, word := range words[1:] {
		if d, err := time.ParseDuration(word); err == nil {
			delay = d
		} else if size, err := units.ParseByteSize(word); err == nil {
			c.each = int(size)
		} else {
			ecn = ecn || word == "ecn"
			c.read(word)
		}
	}
	if slices.Contains(words, "forwarded") {
		c.from, c.to, c.router = routedPath(b)
	} else {
		c.from, c.to = trafficPath(b)
	}
	family := "4"
	if slices.Contains(words, "ip6") {
		family = "6"
		c.useIPv6(b)
	}
	c.network = "tcp" + family
	switch words[0] {
	case "udp", "quic":
		c.network = words[0] + family
	case "dctcp":
		ecn = true
		name := fmt.Sprintf("dctcp%d", os.Getpid())
		installed, err := cc.Install("dctcp", cc.Options{Name: name})
		if err != nil {
			testutil.Need(b, "struct_ops", err)
		}
		b.Cleanup(func() { _ = installed.Close() })
		c.congestion = name
	default:
		c.congestion = words[0]
		if err := congestion.Check(words[0]); err != nil {
			testutil.Need(b, "congestion control "+words[0], err)
		}
	}
	if os.Getenv("WEIR_LIMIT_TSO") != "" {
		must(b, ethtool.SetFeatures(c.from.Namespace, "a", map[string]bool{"tso": true, "gso": true}))
	}
	if delay > 0 {
		command(b, c.to.Namespace, fmt.Sprintf("tc qdisc add dev b root netem delay %dus limit 100000", delay.Microseconds()))
	}
	for _, end := range []traffic.Endpoint{c.from, c.to} {
		value := map[bool]string{false: "0", true: "1"}[ecn]
		if err := sysctl.Set(end.Namespace, "net.ipv4.tcp_ecn", value); err != nil {
			b.Fatal(err)
		}
	}
	return c
}

// read parses a word of a load's name.
func (c *limitCell) read(word string) {
	switch word {
	case "ingress":
		c.direction = direction.Ingress
	case "udp", "quic":
		c.beside = word
	case "flooded":
		c.beside, c.flooded = "udp", true
	case "fallen":
		c.first = 1000
	case "risen":
		c.first = 10
	}
}

// useIPv6 adds IPv6 addresses to the path.
func (c *limitCell) useIPv6(b *testing.B) {
	b.Helper()
	c.from.Address, c.to.Address = netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
	if c.router == nil {
		command(b, c.from.Namespace, "ip addr add fd00::1/64 dev a nodad")
		command(b, c.to.Namespace, "ip addr add fd00::2/64 dev b nodad")
		return
	}
	c.to.Address = netip.MustParseAddr("fd00:1::1")
	must(b, sysctl.Set(c.router, "net.ipv6.conf.all.forwarding", "1"))
	command(b, c.from.Namespace, "ip addr add fd00::1/64 dev a nodad", "ip route add default via fd00::2")
	command(b, c.router, "ip addr add fd00::2/64 dev in nodad", "ip addr add fd00:1::2/64 dev out nodad")
	command(b, c.to.Namespace, "ip addr add fd00:1::1/64 dev b nodad", "ip route add default via fd00:1::2")
}

// efficiency returns the payload's share of the bytes that a limit counts: MTU-sized segments with
// timestamps, or datagrams; QUIC's of 1452 bytes of UDP payload, with 26 bytes for its headers, a
// stream's and the tag.
func (c limitCell) efficiency() float64 {
	header := 20.
	if strings.HasSuffix(c.network, "6") {
		header = 40
	}
	switch c.network[:len(c.network)-1] {
	case "udp":
		return datagramSize / (datagramSize + 8 + header + police.EthernetHeader)
	case "quic":
		return (1452 - 26) / (1452 + 8 + header + police.EthernetHeader)
	}
	return (1500 - header - 32) / (1500 + police.EthernetHeader)
}

// percent returns the received bytes in percent of the rate's maximum of payload.
func (c limitCell) percent(octets []float64, rate units.BitRate, measured time.Duration) (sum float64) {
	for _, n := range octets {
		sum += 100 * n * 8 / (measured.Seconds() * float64(rate) * c.efficiency())
	}
	return sum
}
