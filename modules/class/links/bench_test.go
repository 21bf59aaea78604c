// SPDX-License-Identifier: Apache-2.0

package links

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// onWire is the size of a datagram on the wire in bytes.
const onWire = size + 28 + ethernetHeader + ethernetOverhead

// load is the offered load of each class, relative to the link's rate.
type load struct {
	name        string
	be, ef, lbe float64
}

// loads are those of the paper's sections 5.2 and 5.3, a quarter of it best effort, then more than
// a fair half.
var loads = []load{
	{"50 %", .125, 0, .375}, {"95 %", .20, .05, .70}, {"100 %", .20, .05, .75}, {"120 %", .25, .05, .90},
	{"120 %, much of it best effort", .70, .05, .45}, {"200 %, much of it best effort", .90, .05, 1.05},
}

// offered holds the results of one class.
type offered struct {
	sent, received, disordered int
}

const benchRate = 20_000_000

// offer sends a load evenly for some time. It returns the results of each class, and the fraction
// of the spare capacity used by less than best effort.
func (s *stage) offer(b *testing.B, dscps []byte, l load, preset string, last time.Duration) (of map[byte]*offered, ofRest float64) {
	b.Helper()
	state := s.apply(b, fmt.Sprintf("  eth0: {rate: %dbit, preset: %s}\n", benchRate, preset))
	fd, from := s.listen(b), s.socket(b, s.here)
	defer func() { _ = unix.Close(fd) }()
	must(b, unix.SetsockoptInt(from, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 1<<28))
	to, data := &unix.SockaddrInet4{Port: 9, Addr: [4]byte{10, 9, 0, 2}}, make([]byte, size)
	type stream struct {
		dscp  byte
		every time.Duration
		due   time.Time
	}
	began := time.Now()
	var streams []*stream
	of = map[byte]*offered{}
	for i, share := range []float64{l.be, l.ef, l.lbe} {
		of[dscps[i]] = &offered{}
		if share > 0 {
			streams = append(streams, &stream{dscps[i], time.Duration(onWire * 8 / (share * benchRate) * 1e9), began})
		}
	}
	before, _ := s.row(b, state, lowEffort)
	for now := began; now.Sub(began) < last; now = time.Now() {
		next := slices.MinFunc(streams, func(a, b *stream) int { return a.due.Compare(b.due) })
		if wait := next.due.Sub(now); wait > 0 {
			time.Sleep(wait)
			continue
		}
		if now.Sub(next.due) > 5*time.Millisecond { // the machine was late: skip these packets
			next.due = now
		}
		next.due = next.due.Add(next.every)
		must(b, unix.SetsockoptInt(from, unix.IPPROTO_IP, unix.IP_TOS, int(next.dscp)<<2))
		n := of[next.dscp].sent
		data[0], data[1], data[2] = next.dscp, byte(n>>8), byte(n)
		must(b, unix.Sendto(from, data, 0, to))
		of[next.dscp].sent++
	}
	elapsed := time.Since(began)
	after, _ := s.row(b, state, lowEffort)
	highest := map[byte]int{}
	for _, a := range s.received(b, fd, state) {
		o := of[a.dscp]
		o.received++
		if h, seen := highest[a.dscp]; seen && a.number < h {
			o.disordered++
		}
		highest[a.dscp] = max(highest[a.dscp], a.number)
	}
	rest := benchRate*elapsed.Seconds()/8/onWire - float64(of[dscps[0]].sent+of[dscps[1]].sent)
	return of, float64(after-before) / min(max(rest, .01*benchRate*elapsed.Seconds()/8/onWire), float64(of[dscps[2]].sent))
}

// BenchmarkLoss reports loss and reordering by class, load and preset: the paper's section 5.3.
func BenchmarkLoss(b *testing.B) {
	for _, preset := range []string{Own, "geant-1", "geant-2"} {
		for _, l := range loads {
			b.Run(preset+"/"+strings.ReplaceAll(l.name, " ", "_"), func(b *testing.B) {
				s := newStage(b, "")
				for range b.N {
					dscps := []byte{0, 46, 1}
					of, rest := s.offer(b, dscps, l, preset, time.Second)
					disordered := 0
					for i, name := range []string{"BE-lost-%", "EF-lost-%", "LBE-lost-%"} {
						o := of[dscps[i]]
						disordered += o.disordered
						if o.sent > 0 {
							b.ReportMetric(100*float64(o.sent-o.received)/float64(o.sent), name)
						}
					}
					b.ReportMetric(100*rest, "LBE-of-rest-%")
					b.ReportMetric(float64(disordered), "disordered")
					b.ReportMetric(0, "ns/op")
				}
			})
		}
	}
}

// BenchmarkClassifier reports the classifier's time per packet, for a plain packet and for one in a
// tunnel.
func BenchmarkClassifier(b *testing.B) {
	link := &Treatment{Rate: 1e9, Classes: preset(Own)}
	program, _, err := link.load(false)
	must(b, err)
	defer func() { _ = program.Close() }()
	pad := make([]byte, 40)
	for name, packet := range map[string][]byte{
		"IPv4": frame(0x0800, ip4(1, 17, pad...)...), "IPv6": frame(0x86dd, ip6(1, 17, pad...)...),
		"best_effort": frame(0x0800, ip4(0, 6, pad...)...), "GRE": frame(0x0800, ip4(0, 47, gre(0, 0x0800, ip4(1, 17, pad...)...)...)...),
	} {
		b.Run(name, func(b *testing.B) {
			const repeat = 100_000
			_, took, err := program.Benchmark(packet, repeat, func() {})
			must(b, err)
			b.ReportMetric(float64(took.Nanoseconds()), "ns/packet")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkCost reports the datagrams that one CPU sends through a link that is not full, as a
// ratio to a plain queue: the cost of HTB, and of the classes beyond it. The settings alternate in
// rounds.
func BenchmarkCost(b *testing.B) {
	const rounds, bursts = 7, 20
	s := newStage(b, "")
	tc := func(words string) { run(b, "tc", "-n "+s.here.Name+" "+words) }
	settings := []struct {
		name string
		set  func()
	}{
		{"pfifo", func() { tc("qdisc replace dev eth0 root handle 1: pfifo limit 1000") }},
		{"htb", func() {
			tc("qdisc add dev eth0 root handle 1: htb default 20")
			tc("class add dev eth0 parent 1: classid 1:20 htb rate 40gbit quantum 1514")
		}},
		{"classes", func() { s.apply(b, "  eth0: {rate: 40Gbit}\n") }},
	}
	fd := s.listen(b)
	must(b, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 1)) // the socket is never read
	ratios := map[string][]float64{}
	for range rounds {
		took := map[string]time.Duration{}
		for _, i := range rand.Perm(len(settings)) {
			s.clear(b)
			settings[i].set()
			began := time.Now()
			s.send(b, train{0, bursts * 1000, 0})
			took[settings[i].name] = time.Since(began)
		}
		for name, t := range took {
			ratios[name] = append(ratios[name], float64(took["pfifo"])/float64(t))
		}
	}
	for _, setting := range settings {
		b.Run(setting.name, func(b *testing.B) {
			all := ratios[setting.name]
			slices.Sort(all)
			b.ReportMetric(all[len(all)/2], "of-pfifo")
			b.ReportMetric(all[0], "least")
			b.ReportMetric(all[len(all)-1], "most")
			b.ReportMetric(0, "ns/op")
		})
	}
	s.clear(b)
}

// clear removes the root qdisc of the device, if any.
func (s *stage) clear(b *testing.B) {
	b.Helper()
	_, err := s.release()
	must(b, err)
	if !strings.Contains(s.show(b), "noqueue") {
		run(b, "tc", "-n "+s.here.Name+" qdisc del dev eth0 root")
	}
}
