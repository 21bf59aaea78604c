// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/kernel/netns"
	"weir/record/stats"
)

// limitSender is the sending end of a cell.
type limitSender struct {
	lock  sync.Mutex // guards flows and closed
	flows []io.Closer
	gone  bool
	probe *limitProbe
}

func (s *limitSender) add(flow io.Closer) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.flows = append(s.flows, flow)
}

// Close ends all flows.
func (s *limitSender) Close() error {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.gone = true
	for _, flow := range s.flows {
		_ = flow.Close()
	}
	return s.probe.conn.Close()
}

func (s *limitSender) closed() bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.gone
}

// turn starts the recording of the users' view, or ends it and returns it.
func (s *limitSender) turn() limitSeen {
	if !s.probe.on.Swap(true) {
		return limitSeen{}
	}
	seen := limitSeen{SRTT: s.roundTrips()}
	seen.Probes, seen.Sent = s.probe.end()
	return seen
}

// roundTrips returns TCP's smoothed round-trip times of long connections, ms.
func (s *limitSender) roundTrips() (all []float64) {
	s.lock.Lock()
	defer s.lock.Unlock()
	for _, flow := range s.flows {
		conn, is := flow.(*net.TCPConn)
		if !is {
			continue
		}
		raw, err := conn.SyscallConn()
		if err != nil {
			continue
		}
		_ = raw.Control(func(fd uintptr) {
			if info, err := unix.GetsockoptTCPInfo(int(fd), unix.SOL_TCP, unix.TCP_INFO); err == nil {
				all = append(all, float64(info.Rtt)/1000)
			}
		})
	}
	return all
}

// sendEach opens one connection after another; each ends when its bytes are received.
func (s *limitSender) sendEach(work limitLoad, dialer net.Dialer) {
	ns, err := netns.Open(work.Namespace)
	if err != nil {
		return
	}
	defer func() { _ = ns.Close() }()
	message := make([]byte, work.Each)
	for !s.closed() {
		_ = ns.Do(func() error {
			conn, err := dialer.Dial(work.Network, work.Address)
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }()
			_, err = conn.Write(message)
			err = errors.Join(err, conn.(*net.TCPConn).CloseWrite())
			_, _ = conn.Read(message[:1]) // the end, or a reset
			return err
		})
	}
}

const (
	probePort  = 7007
	probeSize  = 64
	probeEvery = 5 * time.Millisecond
	probeLast  = 400 * time.Millisecond // for the last answers
)

// limitProbe sends small datagrams beside the load and waits for answers, like a user's small
// packets.
type limitProbe struct {
	conn net.Conn
	on   atomic.Bool
	lock sync.Mutex // guards the rest
	sent []time.Time
	took []float64 // ms
}

func newLimitProbe(load string) (*limitProbe, error) {
	address, err := netip.ParseAddrPort(load)
	if err != nil {
		return nil, err
	}
	conn, err := net.Dial("udp", netip.AddrPortFrom(address.Addr(), probePort).String())
	if err != nil {
		return nil, err
	}
	p := &limitProbe{conn: conn}
	go p.ask()
	go p.hear()
	return p, nil
}

func (p *limitProbe) ask() {
	message := make([]byte, probeSize)
	for {
		if p.on.Load() {
			p.lock.Lock()
			copy(message, strconv.Itoa(len(p.sent))+" ")
			p.sent = append(p.sent, time.Now())
			p.lock.Unlock()
			if _, err := p.conn.Write(message); errors.Is(err, net.ErrClosed) {
				return
			}
		}
		time.Sleep(probeEvery)
	}
}

func (p *limitProbe) hear() {
	message := make([]byte, probeSize)
	for {
		if _, err := p.conn.Read(message); errors.Is(err, net.ErrClosed) {
			return
		}
		number, _, _ := strings.Cut(string(message), " ")
		i, _ := strconv.Atoi(number)
		p.lock.Lock()
		if i < len(p.sent) {
			p.took = append(p.took, time.Since(p.sent[i]).Seconds()*1000)
		}
		p.lock.Unlock()
	}
}

// end stops the probe and returns the answer times, ms, and the number of requests.
func (p *limitProbe) end() ([]float64, int) {
	p.on.Store(false)
	time.Sleep(probeLast)
	p.lock.Lock()
	defer p.lock.Unlock()
	took, sent := p.took, len(p.sent)
	p.took, p.sent = nil, nil
	return took, sent
}

// serveProbes answers probes.
func (s *limitSink) serveProbes(at string) error {
	address, err := netip.ParseAddrPort(at)
	if err != nil {
		return err
	}
	conn, err := net.ListenPacket("udp", netip.AddrPortFrom(address.Addr(), probePort).String())
	if err != nil {
		return err
	}
	s.probes = conn
	go func() {
		message := make([]byte, probeSize)
		for {
			_, from, err := conn.ReadFrom(message)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(message, from)
		}
	}()
	return nil
}

// limitSeen is the users' view of a cell's measurement.
type limitSeen struct {
	SRTT, Probes []float64 // ms
	Sent         int       // probes
	Octets       float64   // payload received
	Hosts        limitHosts
}

// limitHosts are counters of both ends.
type limitHosts struct {
	segments, again   float64 // TCP's, sent
	offered, received float64 // datagrams
	busy              float64 // ticks of all CPUs, 10 ms
}

func (c limitCell) hosts(b *testing.B) (h limitHosts) {
	b.Helper()
	from, to := snmp(b, c.from.Namespace), snmp(b, c.to.Namespace)
	h.segments, h.again = from["TcpOutSegs"], from["TcpRetransSegs"]
	// With UDP GSO a message counts as one; quic-go does not use it here.
	h.offered, h.received = from["UdpOutDatagrams"]+from["UdpSndbufErrors"], to["UdpInDatagrams"]
	text, err := os.ReadFile("/proc/stat")
	must(b, err)
	line, _, _ := strings.Cut(string(text), "\n")
	for i, word := range strings.Fields(line)[1:] {
		n, _ := strconv.ParseFloat(word, 64)
		if i != 3 && i != 4 && i < 7 { // idle, waiting for disks, stolen
			h.busy += n
		}
	}
	return h
}

func (h limitHosts) since(e limitHosts) limitHosts {
	return limitHosts{h.segments - e.segments, h.again - e.again, h.offered - e.offered, h.received - e.received, h.busy - e.busy}
}

// snmp reads the counters of IP and above of a network namespace.
func snmp(b *testing.B, ns *netns.Namespace) map[string]float64 {
	b.Helper()
	values := map[string]float64{}
	must(b, ns.Do(func() error {
		text, err := os.ReadFile("/proc/thread-self/net/snmp")
		lines := strings.Split(string(text), "\n")
		for i := 0; i+1 < len(lines); i += 2 {
			names, numbers := strings.Fields(lines[i]), strings.Fields(lines[i+1])
			for j := 1; j < len(names); j++ {
				values[strings.TrimSuffix(names[0], ":")+names[j]], _ = strconv.ParseFloat(numbers[j], 64)
			}
		}
		return err
	}))
	return values
}

// limitUsers sums the users' views.
type limitUsers struct{ sum limitSeen }

func (u *limitUsers) add(s limitSeen) {
	u.sum.SRTT, u.sum.Probes = append(u.sum.SRTT, s.SRTT...), append(u.sum.Probes, s.Probes...)
	u.sum.Sent += s.Sent
	u.sum.Octets += s.Octets
	h, n := &u.sum.Hosts, s.Hosts
	*h = limitHosts{h.segments + n.segments, h.again + n.again, h.offered + n.offered, h.received + n.received, h.busy + n.busy}
}

// report reports the round-trip times of TCP and of small datagrams, the retransmissions, the lost
// share of datagrams (of a load of them) and of probes, and the CPU time, which is meaningful on an
// idle machine; names begin with prefix.
func (u *limitUsers) report(b *testing.B, prefix string) {
	h := u.sum.Hosts
	b.ReportMetric(100*h.again/max(h.segments, 1), prefix+"%again")
	if h.segments == 0 {
		b.ReportMetric(100*max(0, h.offered-h.received)/max(h.offered, 1), prefix+"%lost")
	}
	b.ReportMetric(100*float64(u.sum.Sent-len(u.sum.Probes))/max(float64(u.sum.Sent), 1), prefix+"%probes-lost")
	b.ReportMetric(h.busy*10/max(u.sum.Octets*8/1e9, 1e-9), prefix+"cpu-ms/Gbit")
	if len(u.sum.SRTT) > 0 {
		b.ReportMetric(stats.Of(u.sum.SRTT).Mean, prefix+"srtt-ms")
	}
	if slices.Sort(u.sum.Probes); len(u.sum.Probes) > 0 {
		b.ReportMetric(u.sum.Probes[len(u.sum.Probes)/2], prefix+"p50-ms")
		b.ReportMetric(u.sum.Probes[len(u.sum.Probes)*99/100], prefix+"p99-ms")
	}
}
