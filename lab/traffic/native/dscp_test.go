// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"weir/kernel/netns"
	"weir/kernel/testutil"
	"weir/lab/traffic"
)

// capture returns the next packets that arrive in ns, decoded, one per call.
func capture(t *testing.T, ns *netns.Namespace) func() gopacket.Packet {
	t.Helper()
	var fd int
	must(t, ns.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(htons(unix.ETH_P_ALL)))
		return err
	}))
	t.Cleanup(func() { _ = unix.Close(fd) })
	must(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}))
	buffer := make([]byte, 1<<16)
	return func() gopacket.Packet {
		n, err := testutil.Read(fd, buffer)
		if err != nil {
			t.Fatalf("no packet arrived: %v", err)
		}
		return gopacket.NewPacket(buffer[:n], layers.LayerTypeEthernet, gopacket.Default)
	}
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

// tos is the TOS octet or traffic class of a TCP or UDP packet; ok is false for others.
func tos(p gopacket.Packet) (octet uint8, ok bool) {
	if p.TransportLayer() == nil {
		return 0, false
	}
	switch ip := p.NetworkLayer().(type) {
	case *layers.IPv4:
		return ip.TOS, true
	case *layers.IPv6:
		return ip.TrafficClass, true
	}
	return 0, false
}

func TestDSCPIsOnEveryPacket(t *testing.T) {
	p := newPath(t)
	for _, family := range []int{4, 6} {
		for _, f := range []traffic.Flow{bulk(1), datagramFlow(1)} {
			t.Run(fmt.Sprintf("%s-IPv%d", f.Kind, family), func(t *testing.T) {
				f.DSCP, f.Duration = 46, 30*time.Second
				for _, end := range []traffic.Endpoint{p.from[family], p.to[family]} {
					checkDSCP(t, p, family, f, end.Namespace)
				}
			})
		}
	}
}

// checkDSCP captures in ns, where packets of both directions pass, while the flow runs.
func checkDSCP(t *testing.T, p path, family int, f traffic.Flow, ns *netns.Namespace) {
	t.Helper()
	next := capture(t, ns)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = New().Run(ctx, f, p.from[family], p.to[family])
	}()
	defer func() { cancel(); <-ended }()
	for seen := 0; seen < 20; {
		packet := next()
		octet, ok := tos(packet)
		if !ok {
			continue
		}
		seen++
		if octet != f.DSCP<<2 {
			t.Fatalf("TOS or traffic class %#x of %v, want %#x", octet, packet, f.DSCP<<2)
		}
	}
}
