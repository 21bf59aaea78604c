// SPDX-License-Identifier: Apache-2.0

package police

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"weir/kernel/cgroup"
	"weir/kernel/netns"
	"weir/kernel/sysctl"
	"weir/kernel/testutil"
)

// segment builds a TCP segment of 1000 wire octets.
func segment(t *testing.T, push bool) []byte {
	t.Helper()
	ethernet := &layers.Ethernet{SrcMAC: []byte{2, 0, 0, 0, 0, 1}, DstMAC: []byte{2, 0, 0, 0, 0, 2}, EthernetType: layers.EthernetTypeIPv4}
	ip := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolTCP, SrcIP: []byte{10, 0, 0, 1}, DstIP: []byte{10, 0, 0, 2}}
	tcp := &layers.TCP{SrcPort: 1000, DstPort: 2000, ACK: true, PSH: push, Window: 1000}
	if err := tcp.SetNetworkLayerForChecksum(ip); err != nil {
		t.Fatal(err)
	}
	buffer := gopacket.NewSerializeBuffer()
	options := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(buffer, options, ethernet, ip, tcp, gopacket.Payload(make([]byte, 1000-14-20-20))); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

// Beyond the threshold of 5.5 packets less a reserve of 2, the end of a message passes up to the
// ceiling of four thresholds. In the classic algorithm it does not.
func TestEndOfAMessagePassesAtIngressUpToTheCeiling(t *testing.T) {
	p := plane(t, 1)
	needStorage(t, p)
	l := slow(1, 2, 5)
	if err := p.Set(0, Ingress, l); err != nil {
		t.Fatal(err)
	}
	admitted := func(push bool) (n int) {
		frame := segment(t, push)
		for range 60 {
			if verdict, _ := send(t, p.objects.LimitIngress, frame); verdict == pass {
				n++
			}
		}
		return n
	}
	began := time.Now()
	middle, end := admitted(false), admitted(true)
	// 4 packets are within the burst of 1 and the threshold of 3.5, and 23 within the burst and the
	// ceiling of 22.
	if slack := int(drained(began)); middle < 4 || middle > 4+slack || middle+end < 22 || middle+end > 23+slack {
		t.Errorf("%d segments and %d ends of a message passed, want 4 and 19", middle, end)
	}
	if c, err := p.Counters(0, Ingress); err != nil || c.Forced != uint64(end) {
		t.Errorf("%d were forced (%v), want %d", c.Forced, err, end)
	}
	l.Classic = true
	if err := p.Set(0, Ingress, l); err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	if n := admitted(true); n > int(drained(began)) {
		t.Errorf("the classic algorithm passed %d beyond its threshold", n)
	}
}

// tcpCounts returns the TCP counters of a namespace by "Tcp:Name" and "TcpExt:Name".
func tcpCounts(t *testing.T, ns *netns.Namespace) map[string]int {
	t.Helper()
	counts := map[string]int{}
	err := ns.Do(func() error {
		for _, file := range []string{"snmp", "netstat"} {
			text, err := os.ReadFile("/proc/thread-self/net/" + file)
			if err != nil {
				return err
			}
			lines := strings.Split(string(text), "\n")
			for i := 0; i+1 < len(lines); i += 2 {
				names, values := strings.Fields(lines[i]), strings.Fields(lines[i+1])
				for j := 1; j < len(names) && j < len(values); j++ {
					var n int
					_, _ = fmt.Sscan(values[j], &n)
					counts[names[0]+names[j]] = n
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return counts
}

// controlBy sets the congestion control of accepted connections.
func controlBy(t *testing.T, listener net.Listener, congestion string) {
	t.Helper()
	raw, err := listener.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var refused error
	err = raw.Control(func(fd uintptr) {
		refused = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, congestion)
	})
	if err := errors.Join(err, refused); err != nil {
		testutil.Need(t, "congestion control "+congestion, err)
	}
}

// socketsBelow returns a data plane that limits one direction of a cgroup (scope 0), and a function
// that opens sockets of that cgroup.
func socketsBelow(t *testing.T, direction Direction, l Limit) (*DataPlane, *cgroup.Sockets) {
	t.Helper()
	group := testutil.Cgroup(t)
	p, err := Load(1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	needStorage(t, p)
	id, err := group.ID()
	if err := errors.Join(err, p.AssignCgroup(id, 0), p.Set(0, direction, l), p.Attach(group.Path)); err != nil {
		t.Fatal(err)
	}
	sockets, err := group.OpenSockets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sockets.Close() })
	return p, sockets
}

// connected opens a TCP socket of a cgroup in a namespace and connects it to an address and port.
func connected(sockets *cgroup.Sockets, client *netns.Namespace, address string) (int, error) {
	fd, err := sockets.Socket(client, unix.AF_INET, unix.SOCK_STREAM)
	if err != nil {
		return -1, err
	}
	to := netip.MustParseAddrPort(address)
	if err := unix.Connect(fd, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// received counts the effects of a host's limit of 100 Mbit/s on four simultaneous transfers of
// 2 MiB. All bytes arrived.
type received struct {
	Counters
	to, from map[string]int // the kernel's counts of the receiving and the sending namespace
}

func receive(t *testing.T) (r received) {
	t.Helper()
	const flows, size = 4, 2 << 20
	client, server, address := path(t)
	for _, ns := range []*netns.Namespace{client, server} {
		if err := sysctl.Set(ns, "net.ipv4.tcp_ecn", "0"); err != nil {
			t.Fatal(err)
		}
	}
	listener := listen(t, server, address)
	controlBy(t, listener, "cubic")
	go accept(listener, func(conn net.Conn) { _, _ = conn.Write(make([]byte, size)) })
	p, sockets := socketsBelow(t, Ingress, Limit{Rate: 100_000_000})
	arrived := make(chan error)
	for range flows {
		go func() {
			arrived <- func() error {
				fd, err := connected(sockets, client, listener.Addr().String())
				if err != nil {
					return err
				}
				// The child that opened the last socket keeps a copy of this one.
				defer func() { _, _ = unix.Shutdown(fd, unix.SHUT_RDWR), unix.Close(fd) }()
				sum, buffer := 0, make([]byte, 64<<10)
				for {
					n, err := unix.Read(fd, buffer)
					if sum += max(n, 0); err != nil || n == 0 {
						return errors.Join(err, map[bool]error{false: fmt.Errorf("%d octets arrived, want %d", sum, size)}[sum == size])
					}
				}
			}()
		}()
	}
	for range flows {
		if err := <-arrived; err != nil {
			t.Fatal(err)
		}
	}
	// The last receiver ends after all its data has arrived.
	testutil.Eventually(t, 10*time.Second, "the end of the connections", func() bool {
		return strings.Count(readNet(t, client, "tcp"), "\n") == 1
	})
	r.Counters = countersAt(t, p, 0, Ingress)
	r.to, r.from = tcpCounts(t, client), tcpCounts(t, server)
	return r
}

// Beyond the threshold at most every other segment is dropped, since the next one reveals the hole.
// Retransmissions pass, so that no sender waits for its timer. A queue of 40 s does not drain
// noticeably within the test.
func TestRepairsAreNotDropped(t *testing.T) {
	l := Limit{Rate: 1_000_000_000, Burst: time.Millisecond, Mark: 10 * time.Second, Drop: 20 * time.Second, Reserve: time.Millisecond}
	c := newCrowd(t, l)
	const segments = 8
	fillAt(t, c.plane, 0, Ingress, 2*l.Drop)
	before := tcpCounts(t, c.server)
	c.arrive(t, c.send(t, segments))
	n, sent := countersAt(t, c.plane, 0, Ingress), tcpCounts(t, c.server)
	again := uint64(sent["Tcp:RetransSegs"] - before["Tcp:RetransSegs"])
	if n.Dropped == 0 || n.Dropped > segments/2 || n.Forced < segments || n.Dropped+n.Forced > segments+again {
		t.Errorf("%d segments were refused and %d forced, %d sent again; want at most %d refused, and as many forced as are left",
			n.Dropped, n.Forced, again, segments/2)
	}
	if lost := sent["TcpExt:TCPLostRetransmit"]; lost != 0 || c.state(t).Crowded != 0 {
		t.Errorf("%d segments that were sent again were lost again; one was refused: %d", lost, c.state(t).Crowded)
	}
}

// On a path of some microseconds senders without ECN must lose segments, but no retransmission. A
// slow CPU has more in flight at the ceiling, where retransmissions are dropped too.
func TestTransfersLoseNoRepair(t *testing.T) {
	testutil.NeedInstructionClock(t)
	r := receive(t)
	if r.Dropped == 0 || r.Forced == 0 || r.from["Tcp:RetransSegs"] == 0 {
		t.Errorf("%d refused, %d forced, %d sent again, want some of each", r.Dropped, r.Forced, r.from["Tcp:RetransSegs"])
	}
	if n := r.from["TcpExt:TCPLostRetransmit"]; n != 0 {
		t.Errorf("%d retransmissions were lost", n)
	}
	// OutSegs excludes retransmissions (SYN, FIN).
	if sent, arrived := r.to["Tcp:OutSegs"]+r.to["Tcp:RetransSegs"], r.from["Tcp:InSegs"]; sent != arrived {
		t.Errorf("%d of %d segments and acknowledgements of the receiver arrived, want all", arrived, sent)
	}
}

// At ingress a packet takes 1/256 more of the virtual queue than its time on a link of the rate.
func TestPacketsAreDearerAtIngress(t *testing.T) {
	p := plane(t, 1)
	frame := datagram(t, false, 0, payload4)
	const each = 125 * time.Millisecond
	for direction, want := range map[Direction]time.Duration{Egress: 10 * each, Ingress: 10 * (each + each/256)} {
		if err := p.Set(0, direction, slow(4, 20, 30)); err != nil {
			t.Fatal(err)
		}
		finish := func() time.Duration {
			var state limitLimitState
			if err := p.objects.LimitStates.Lookup(uint32(direction), &state); err != nil {
				t.Fatal(err)
			}
			return time.Duration(state.FinishNs)
		}
		program := map[Direction]*ebpf.Program{Egress: p.objects.LimitEgress, Ingress: p.objects.LimitIngress}[direction]
		// These use up the burst, so that the measured packets meet a virtual queue.
		for range 10 {
			send(t, program, frame)
		}
		before := finish()
		for range 10 {
			send(t, program, frame)
		}
		if got := finish() - before; got < want-time.Millisecond || got > want+time.Millisecond {
			t.Errorf("ten packets took %s of the virtual queue at %s, want %s", got, direction, want)
		}
	}
}
