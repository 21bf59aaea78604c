// SPDX-License-Identifier: Apache-2.0

package avail

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/core/prove/station"
	"weir/kernel/netns"
	"weir/kernel/sysctl"
	"weir/kernel/testutil"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func ip(t *testing.T, arguments string) {
	t.Helper()
	if out, err := exec.Command("ip", strings.Fields(arguments)...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v\n%s", arguments, err, out)
	}
}

// lab is two hosts with a router between them; its device towards the far host is the bottleneck.
type lab struct{ near, router, far *netns.Namespace }

const nearAddress, farAddress = "10.7.0.2", "10.8.0.2"

func newLab(t *testing.T) lab {
	t.Helper()
	testutil.NeedRoot(t)
	l := lab{testutil.Namespace(t, "near"), testutil.Namespace(t, "router"), testutil.Namespace(t, "far")}
	for _, side := range []struct {
		ns            *netns.Namespace
		dev, net, own string
	}{{l.near, "eth0", "10.7.0.1", nearAddress}, {l.far, "eth1", "10.8.0.1", farAddress}} {
		ip(t, "-n "+l.router.Name+" link add "+side.dev+" type veth peer eth0 netns "+side.ns.Name)
		ip(t, "-n "+l.router.Name+" address add "+side.net+"/24 dev "+side.dev)
		ip(t, "-n "+side.ns.Name+" address add "+side.own+"/24 dev eth0")
		ip(t, "-n "+l.router.Name+" link set "+side.dev+" up")
		ip(t, "-n "+side.ns.Name+" link set eth0 up")
		ip(t, "-n "+side.ns.Name+" route add default via "+side.net)
	}
	must(t, sysctl.Set(l.router, "net.ipv4.ip_forward", "1"))
	return l
}

// respond starts a responder on the far host.
func (l lab) respond(t *testing.T) station.Peer {
	t.Helper()
	var server *station.Server
	must(t, l.far.Do(func() (err error) {
		server, err = station.Listen(farAddress+":5202", "secret")
		return err
	}))
	ctx, end := context.WithCancel(t.Context())
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(ctx) })
	t.Cleanup(func() { end(); served.Wait() })
	at := netip.MustParseAddrPort(farAddress + ":5202")
	return station.Peer{Control: at, Target: at, Token: "secret"}
}

// cross sends unmarked datagrams from a third host until the test ends. That host's device shapes
// them to a rate on the wire.
func (l lab) cross(t *testing.T, rate string) {
	t.Helper()
	from := testutil.Namespace(t, "cross")
	ip(t, "-n "+l.router.Name+" link add eth2 type veth peer eth0 netns "+from.Name)
	ip(t, "-n "+l.router.Name+" address add 10.9.0.1/24 dev eth2")
	ip(t, "-n "+from.Name+" address add 10.9.0.2/24 dev eth0")
	ip(t, "-n "+l.router.Name+" link set eth2 up")
	ip(t, "-n "+from.Name+" link set eth0 up")
	ip(t, "-n "+from.Name+" route add default via 10.9.0.1")
	tc(t, from, "qdisc add dev eth0 root tbf rate "+rate+" burst 4000 limit 125000")
	var sink *net.UDPConn
	var out net.Conn
	must(t, l.far.Do(func() (err error) {
		sink, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(farAddress), Port: 9})
		return err
	}))
	must(t, from.Do(func() (err error) {
		out, err = net.Dial("udp4", farAddress+":9")
		return err
	}))
	// A blocking socket keeps the queue of the shaper full.
	var sending sync.WaitGroup
	sending.Go(func() {
		for b := make([]byte, 958); ; {
			if _, err := out.Write(b); errors.Is(err, net.ErrClosed) {
				return
			}
		}
	})
	t.Cleanup(func() { _, _ = out.Close(), sink.Close(); sending.Wait() })
}

// tc runs a tc command in a namespace for each line.
func tc(t *testing.T, ns *netns.Namespace, lines ...string) {
	t.Helper()
	for _, words := range lines {
		if out, err := exec.Command(testutil.Command(t, "tc"), strings.Fields("-n "+ns.Name+" "+words)...).CombinedOutput(); err != nil {
			t.Fatalf("tc %s: %v: %s", words, err, out)
		}
	}
}

// lowEffort is LE (RFC 8622).
const lowEffort = 1

// bottlenecks are queues of 20 Mbit/s at the router.
var bottlenecks = map[string][]string{
	"a common queue": {"qdisc add dev eth1 root tbf rate 20mbit burst 4000 limit 125000"},
	"classes": {
		"qdisc add dev eth1 root handle 1: htb default 10",
		"class add dev eth1 parent 1: classid 1:1 htb rate 20mbit",
		"class add dev eth1 parent 1:1 classid 1:10 htb rate 19mbit ceil 20mbit prio 0",
		"class add dev eth1 parent 1:1 classid 1:20 htb rate 200kbit ceil 20mbit prio 7",
		"qdisc add dev eth1 parent 1:20 bfifo limit 50000",
		"filter add dev eth1 parent 1: protocol ip flower ip_tos 0x04/0xfc classid 1:20",
	},
}

// Cross traffic takes 12 of 20 Mbit/s: the estimate is 8, in a common queue and behind best
// effort's queue. The test needs a clock that counts instructions, so that no CPU is late.
func TestWhatABottleneckHasLeftIsFound(t *testing.T) {
	testutil.NeedInstructionClock(t)
	for name, queue := range bottlenecks {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			tc(t, l.router, queue...)
			peer := l.respond(t)
			l.cross(t, "12mbit")
			r := l.run(t, Options{Peer: peer, DSCP: lowEffort, Repetitions: 5, Most: 200e6})
			if got := r.Available.Mean; got < 7e6 || got > 9e6 {
				t.Errorf("%.2f Mbit/s are found, want 8", got/1e6)
			}
			if name == "classes" && r.Caused.Beside.Lost+r.Caused.Idle.Lost > 0 {
				t.Errorf("best effort has lost: %+v", r.Caused)
			}
		})
	}
}

func (l lab) run(t *testing.T, o Options) (r *Result) {
	t.Helper()
	must(t, l.near.Do(func() (err error) {
		r, err = Run(t.Context(), o)
		return err
	}))
	t.Logf("%.2f Mbit/s: %+v; caused %+v", r.Available.Mean/1e6, r.Samples, r.Caused)
	return r
}

// A path that carries every tested rate is reported as at least that, with the caused delay, and
// the trains have their class.
func TestWhatIsTriedIsTheMost(t *testing.T) {
	l := newLab(t)
	peer := l.respond(t)
	r := l.run(t, Options{Peer: peer, DSCP: lowEffort, Repetitions: 2, Most: 3e6})
	if len(r.Samples) != 2 || r.Available.Mean <= 0 || r.Available.Mean > 3.2e6 {
		t.Errorf("found %+v in %+v", r.Available, r.Samples)
	}
	if r.Caused.Idle.Sent+r.Caused.Beside.Sent < idleProbes || r.Caused.Octets == 0 {
		t.Errorf("nothing is known of what was caused: %+v", r.Caused)
	}
}

// A client without the token gets no answer, and nothing is sent to it.
func TestTheResponderAnswersWhoKnowsTheToken(t *testing.T) {
	l := newLab(t)
	peer := l.respond(t)
	peer.Token = "guessed"
	err := l.near.Do(func() error {
		_, err := Run(t.Context(), Options{Peer: peer, Repetitions: 1, Most: 1e6})
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "token is not this peer's") {
		t.Errorf("with another token: %v", err)
	}
}

func TestWhatWasCausedIsToldApart(t *testing.T) {
	ms := time.Millisecond
	d := disturbance([]station.Echo{{At: 1 * ms, RTT: 2 * ms}, {At: 5 * ms, RTT: 9 * ms}, {At: 6 * ms}, {At: 20 * ms, RTT: 4 * ms}, {At: 30 * ms}},
		[]span{{4 * ms, 8 * ms}})
	if d.Idle != (Trips{Sent: 3, Lost: 1, P50: 2 * ms, P99: 4 * ms}) || d.Beside != (Trips{Sent: 2, Lost: 1, P50: 9 * ms, P99: 9 * ms}) || d.AddedP50() != 7*ms {
		t.Errorf("%+v", d)
	}
}
