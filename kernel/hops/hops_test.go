// SPDX-License-Identifier: Apache-2.0

package hops

import (
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/dscp"
	"weir/kernel/netns"
	"weir/kernel/testutil"
)

// way is a client, three routers (hops 1 to 3) and a server (hop 4) in a row.
type way struct{ nodes []*netns.Namespace }

const (
	server4 = "10.8.3.2"
	server6 = "2001:db8:8:3::2"
)

func newWay(t *testing.T) *way {
	t.Helper()
	testutil.NeedRoot(t)
	w := &way{}
	for _, name := range []string{"client", "r1", "r2", "r3", "server"} {
		w.nodes = append(w.nodes, testutil.Namespace(t, name))
	}
	for i := range 4 {
		left, right := w.nodes[i].Name, w.nodes[i+1].Name
		run(t, "ip", "-n", left, "link", "add", "right", "type", "veth", "peer", "left", "netns", right)
		for ns, end := range map[string]struct {
			device string
			host   int
		}{left: {"right", 1}, right: {"left", 2}} {
			run(t, "ip", "-n", ns, "link", "set", end.device, "up")
			run(t, "ip", "-n", ns, "address", "add", fmt.Sprintf("10.8.%d.%d/24", i, end.host), "dev", end.device)
			run(t, "ip", "-n", ns, "address", "add", fmt.Sprintf("2001:db8:8:%d::%d/64", i, end.host), "dev", end.device, "nodad")
		}
	}
	for i, node := range w.nodes {
		for _, setting := range []string{"net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1", "net.ipv4.icmp_ratelimit=0", "net.ipv6.icmp.ratelimit=0"} {
			run(t, "ip", "netns", "exec", node.Name, "sysctl", "-qw", setting)
		}
		for n := range 4 {
			for _, route := range []string{fmt.Sprintf("10.8.%d.0/24", n), fmt.Sprintf("2001:db8:8:%d::/64", n)} {
				six := strings.Contains(route, "::")
				switch {
				case n > i:
					w.route(t, node, route, map[bool]string{false: fmt.Sprintf("10.8.%d.2", i), true: fmt.Sprintf("2001:db8:8:%d::2", i)}[six])
				case n < i-1:
					w.route(t, node, route, map[bool]string{false: fmt.Sprintf("10.8.%d.1", i-1), true: fmt.Sprintf("2001:db8:8:%d::1", i-1)}[six])
				}
			}
		}
	}
	return w
}

func (w *way) route(t *testing.T, node *netns.Namespace, to, via string) {
	t.Helper()
	run(t, "ip", "-n", node.Name, "route", "add", to, "via", via)
}

func run(t *testing.T, arguments ...string) {
	t.Helper()
	if out, err := exec.Command(arguments[0], arguments[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(arguments, " "), err, out)
	}
}

// filter loads nftables rules at a router.
func (w *way) filter(t *testing.T, hop int, rules string) {
	t.Helper()
	testutil.Command(t, "nft")
	out, err := exec.Command("ip", "netns", "exec", w.nodes[hop].Name, "nft", rules).CombinedOutput()
	if err != nil {
		testutil.Need(t, "nf_tables", fmt.Errorf("%w: %s", err, out))
	}
}

// trace traces by every family and protocol.
func (w *way) trace(t *testing.T, o Options, each func(t *testing.T, p Path)) {
	t.Helper()
	for _, to := range []string{server4, server6} {
		for _, protocol := range []string{"udp", "tcp"} {
			t.Run(protocol+" to "+to, func(t *testing.T) {
				if o.Wait == brief.Wait { // most of the time is spent on their timeouts
					t.Parallel()
				}
				of := o
				of.To, of.Protocol, of.DSCP = netip.MustParseAddr(to), protocol, dscp.LowEffort
				var p Path
				err := w.nodes[0].Do(func() (err error) {
					p, err = Run(t.Context(), of)
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				each(t, p)
				if t.Failed() {
					for _, h := range p.Hops {
						t.Logf("%+v", h)
					}
				}
			})
		}
	}
}

// patient waits long enough for a slow machine, and sends many probes to a hop that may drop some.
var patient = Options{Attempts: 10, Wait: 10 * time.Second}

// brief is for silent hops, which always take the whole timeout.
var brief = Options{Attempts: 2, Wait: 4 * time.Second, Port: 7}

// silent is a rule for a router: send no errors.
const silent = "add table inet t; add chain inet t c { type filter hook output priority 0; }; " +
	"add rule inet t c icmp type time-exceeded drop; add rule inet t c icmpv6 type time-exceeded drop"

// want compares the DSCPs of the probes at the hops; -1 is unknown.
func want(t *testing.T, p Path, dscps ...int) {
	t.Helper()
	var got []int
	for _, h := range p.Hops {
		if !h.Known {
			got = append(got, -1)
		} else {
			got = append(got, int(h.DSCP))
		}
	}
	if p.Protocol == "tcp" { // the server resets, and quotes nothing
		dscps[3] = -1
	}
	if !slices.Equal(got, dscps) {
		t.Errorf("DSCPs by hop %v, want %v", got, dscps)
	}
}

func last(p Path) Answer { return p.Hops[len(p.Hops)-1].Answer }

func TestAPathThatKeepsTheDSCP(t *testing.T) {
	w := newWay(t)
	w.trace(t, patient, func(t *testing.T, p Path) {
		want(t, p, 1, 1, 1, 1)
		if end := map[string]Answer{"udp": Answer(PortUnreachable), "tcp": Reset}[p.Protocol]; last(p) != end || !p.Ends() {
			t.Errorf("the path ends with %s, want %s", last(p), end)
		}
		if c := p.Changes(); len(c) > 0 {
			t.Errorf("changes: %v", c)
		}
		if a := p.Hops[1].Address.String(); a != "10.8.1.2" && a != "2001:db8:8:1::2" {
			t.Errorf("the second hop is %s", a)
		}
	})
}

func TestAHopThatBleaches(t *testing.T) {
	w := newWay(t)
	w.filter(t, 2, "add table inet t; add chain inet t c { type filter hook postrouting priority 0; }; "+
		"add rule inet t c ip dscp != cs0 ip dscp set cs0; add rule inet t c ip6 dscp != cs0 ip6 dscp set cs0")
	w.trace(t, patient, func(t *testing.T, p Path) {
		want(t, p, 1, 1, 0, 0)
		if c := p.Changes(); len(c) != 1 || c[0] != (Change{After: 2, Before: 3, Was: 1, Now: 0}) || !c[0].Bleached() {
			t.Errorf("changes: %+v", c)
		}
	})
}

// A hop that rewrites at its ingress quotes the rewritten header.
func TestAHopThatRewritesAndOneThatRewritesBack(t *testing.T) {
	w := newWay(t)
	w.filter(t, 2, "add table inet t; add chain inet t c { type filter hook prerouting priority -300; }; "+
		"add rule inet t c ip dscp 1 ip dscp set cs1; add rule inet t c ip6 dscp 1 ip6 dscp set cs1")
	w.filter(t, 3, "add table inet t; add chain inet t c { type filter hook postrouting priority 0; }; "+
		"add rule inet t c ip dscp cs1 ip dscp set 1; add rule inet t c ip6 dscp cs1 ip6 dscp set 1")
	w.trace(t, patient, func(t *testing.T, p Path) {
		want(t, p, 1, 8, 8, 1)
		changes := p.Changes()
		if first := (Change{After: 1, Before: 2, Was: 1, Now: 8}); len(changes) == 0 || changes[0] != first {
			t.Errorf("changes: %+v", changes)
		}
		if second := (Change{After: 3, Before: 4, Was: 8, Now: 1}); p.Protocol == "udp" && (len(changes) != 2 || changes[1] != second) {
			t.Errorf("changes: %+v", changes)
		}
	})
}

// A change behind a silent hop may be the silent hop's.
func TestAHopThatSendsNoICMP(t *testing.T) {
	w := newWay(t)
	w.filter(t, 2, silent+"; add chain inet t p { type filter hook postrouting priority 0; }; "+
		"add rule inet t p ip dscp 1 ip dscp set cs0; add rule inet t p ip6 dscp 1 ip6 dscp set cs0")
	w.trace(t, brief, func(t *testing.T, p Path) {
		if h := p.Hops[1]; h.Answer != Silent || h.Known || h.Address.IsValid() {
			t.Fatalf("the silent hop: %+v", h)
		}
		want(t, p, 1, -1, 0, 0)
		c := p.Changes()
		if len(c) != 1 || c[0] != (Change{After: 1, Before: 3, Was: 1, Now: 0}) || !strings.Contains(c[0].String(), "silent") {
			t.Errorf("changes: %+v", c)
		}
	})
}

// A router that limits its errors answers a later attempt.
func TestAHopThatLimitsItsErrors(t *testing.T) {
	w := newWay(t)
	w.filter(t, 2, "add table inet t; add chain inet t c { type filter hook output priority 0; }; "+
		"add rule inet t c icmp type time-exceeded numgen inc mod 2 == 0 drop; add rule inet t c icmpv6 type time-exceeded numgen inc mod 2 == 0 drop")
	limited := patient
	limited.Wait = 2 * time.Second
	w.trace(t, limited, func(t *testing.T, p Path) { want(t, p, 1, 1, 1, 1) })
}

// The destination replies; a silent hop before it does not make the path shorter.
func TestADestinationThatAnswers(t *testing.T) {
	w := newWay(t)
	w.filter(t, 2, silent)
	err := w.nodes[4].Do(func() error {
		datagrams, err := net.ListenPacket("udp", ":7")
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = datagrams.Close() })
		go func() {
			for buffer := make([]byte, 1000); ; {
				n, from, err := datagrams.ReadFrom(buffer)
				if err != nil {
					return
				}
				_, _ = datagrams.WriteTo(buffer[:n], from)
			}
		}()
		listener, err := net.Listen("tcp", ":7")
		if err == nil {
			t.Cleanup(func() { _ = listener.Close() })
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	w.trace(t, brief, func(t *testing.T, p Path) {
		end := map[string]Answer{"udp": Replied, "tcp": Opened}[p.Protocol]
		if len(p.Hops) != 4 || p.Hops[1].Answer != Silent || last(p) != end || p.Hops[3].Address != p.To {
			t.Errorf("%d hops, the last %+v, want %s", len(p.Hops), p.Hops[len(p.Hops)-1], end)
		}
		if p.Known() != 3 {
			t.Errorf("the DSCP is told up to hop %d, want 3", p.Known())
		}
	})
}

// A router without a route reports it, and the path ends there.
func TestAPathThatEndsAtARouter(t *testing.T) {
	w := newWay(t)
	for _, route := range []string{"10.8.3.0/24", "2001:db8:8:3::/64"} {
		run(t, "ip", "-n", w.nodes[2].Name, "route", "del", route)
		run(t, "ip", "-n", w.nodes[2].Name, "route", "add", "unreachable", route)
	}
	w.trace(t, patient, func(t *testing.T, p Path) {
		if len(p.Hops) < 2 || !p.Ends() || last(p) != Answer(Unreachable) || p.Known() != len(p.Hops) {
			t.Errorf("the path ends with %s at hop %d, known up to %d", last(p), len(p.Hops), p.Known())
		}
	})
}

// If the next router does not resolve, this host's own errors do not count as a hop.
func TestAProbeThatNeverLeaves(t *testing.T) {
	w := newWay(t)
	run(t, "ip", "-n", w.nodes[1].Name, "link", "set", "left", "arp", "off")
	run(t, "ip", "-n", w.nodes[1].Name, "address", "flush", "dev", "left")
	short := brief
	short.Hops = 2
	w.trace(t, short, func(t *testing.T, p Path) {
		if p.Known() != 0 || p.Ends() {
			t.Errorf("known up to hop %d, ends %t", p.Known(), p.Ends())
		}
	})
}
