// SPDX-License-Identifier: Apache-2.0

package latency

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"weir/kernel/testutil"
	"weir/measure/admission"
	"weir/measure/archive"
	"weir/measure/record"
)

// site is a running server.
type site struct {
	*Sessions
	address netip.AddrPort

	mu       sync.Mutex // guards the following fields
	results  map[string]int
	records  []*record.Latency
	outcomes []string
	fail     error
}

// start runs a server until the end of the test. Its tests take a minute, unless changed.
func start(t *testing.T, listen string, change func(*Options)) *site {
	t.Helper()
	conn, err := net.ListenPacket("udp", listen)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{results: map[string]int{}}
	o := Options{
		Gate: admission.New(20), Duration: time.Minute, Grace: 10 * time.Millisecond, Version: "1.2.3",
		Count: func(result string) { s.mu.Lock(); defer s.mu.Unlock(); s.results[result]++ },
		Store: func(r *record.Latency, outcome string) error {
			text, err := json.Marshal(r)
			if err == nil {
				err = archive.Fit("latency1", text)
			}
			if err != nil {
				t.Error(err)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.records, s.outcomes = append(s.records, r), append(s.outcomes, outcome)
			return s.fail
		},
	}
	if change != nil {
		change(&o)
	}
	if s.Sessions, err = New(conn.(*net.UDPConn), o); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run() }()
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), <-ended); err != nil {
			t.Error(err)
		}
	})
	s.address = conn.LocalAddr().(*net.UDPAddr).AddrPort()
	return s
}

// count waits until n datagrams had the result.
func (s *site) count(t *testing.T, result string, n int) {
	t.Helper()
	testutil.Eventually(t, time.Minute, fmt.Sprintf("%d datagrams are %s", n, result), func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.results[result] >= n
	})
}

// peer is a client without the code under test.
type peer struct {
	*net.UDPConn
	t *testing.T
}

// peer returns a socket at the local address that is connected to the server's.
func (s *site) peer(t *testing.T, local, server string) *peer {
	t.Helper()
	c, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(local), 0)), net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(server), s.address.Port())))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &peer{c, t}
}

func (p *peer) send(text string) {
	p.t.Helper()
	if _, err := p.Write([]byte(text)); err != nil {
		p.t.Fatal(err)
	}
}

// read returns the next datagram.
func (p *peer) read() (text []byte, v Packet) {
	p.t.Helper()
	_ = p.SetReadDeadline(time.Now().Add(time.Minute))
	buffer := make([]byte, 2048)
	n, err := p.Read(buffer)
	if err == nil {
		err = json.Unmarshal(buffer[:n], &v)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return buffer[:n], v
}

// echo echoes the next datagram.
func (p *peer) echo() Packet {
	p.t.Helper()
	text, v := p.read()
	p.send(string(text))
	return v
}

func (s *site) authorize(t *testing.T, id, client string) {
	t.Helper()
	first, err := s.Authorize(id, netip.MustParseAddr(client), "uuid")
	if err != nil || first != (Packet{Type: "c2s", ID: id}) {
		t.Fatalf("%+v, %v", first, err)
	}
}

const kickoff = `{"Type":"c2s","ID":"m","Seq":0}`

func TestEchoesAreMeasured(t *testing.T) {
	for _, c := range []struct{ listen, client, server string }{
		{"127.0.0.1:0", "127.0.0.1", "127.0.0.1"},
		{"0.0.0.0:0", "127.0.0.1", "127.0.0.9"}, // the answers come from the address that the client used
		{"[::]:0", "127.0.0.1", "127.0.0.9"},
		{"[::]:0", "::1", "::1"},
	} {
		s := start(t, c.listen, nil)
		s.authorize(t, "m", c.client)
		p := s.peer(t, c.client, c.server)
		p.send(kickoff)
		for seq := range 30 {
			if v := p.echo(); v.Type != "s2c" || v.ID != "m" || v.Seq != seq || v.LastRTT < 0 {
				t.Errorf("%s: datagram %d is %+v", c.listen, seq, v)
			}
			s.count(t, "echo", seq+1)
		}
		got, err := s.Result(t.Context(), "m", netip.MustParseAddr(c.client))
		if err != nil || got.ID != "m" || got.PacketsReceived != 30 || got.PacketsSent < 30 || len(got.RoundTrips) != got.PacketsSent || got.StartTime.IsZero() {
			t.Fatalf("%s: %+v, %v", c.listen, got, err)
		}
		for i, trip := range got.RoundTrips {
			if trip.Lost != (i >= 30) || trip.RTT < 0 {
				t.Errorf("%s: round trip %d is %+v", c.listen, i, trip)
			}
		}
		r := s.records[0]
		if r.UUID != "uuid" || r.ID != "m" || r.Client != p.LocalAddr().String() || r.Server != p.RemoteAddr().String() || r.Version != "1.2.3" || s.outcomes[0] != "short" || r.EndTime.Before(r.StartTime) {
			t.Errorf("%s: record %+v, outcome %s", c.listen, r, s.outcomes[0])
		}
		if _, err := s.Result(t.Context(), "m", netip.MustParseAddr(c.client)); !errors.Is(err, ErrUnknown) {
			t.Errorf("%s: a result is fetched twice: %v", c.listen, err)
		}
	}
}

func TestATestEndsByItself(t *testing.T) {
	s := start(t, "127.0.0.1:0", func(o *Options) { o.Duration = 50 * time.Millisecond })
	s.authorize(t, "m", "127.0.0.1")
	p := s.peer(t, "127.0.0.1", "127.0.0.1")
	p.send(kickoff)
	p.echo()
	testutil.Eventually(t, time.Minute, "the record is stored", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.records) == 1 })
	got, err := s.Result(t.Context(), "m", netip.MustParseAddr("127.0.0.1"))
	if err != nil || got.PacketsReceived > got.PacketsSent || s.outcomes[0] == "short" {
		t.Errorf("%+v, %v, outcome %v", got, err, s.outcomes)
	}
}

// Datagrams with a forged source, of the wrong port, with wrong numbers, or repeated count nowhere
// and draw nothing.
func TestHostileDatagrams(t *testing.T) {
	s := start(t, "127.0.0.1:0", nil)
	s.authorize(t, "m", "127.0.0.1")
	stranger := s.peer(t, "127.0.0.2", "127.0.0.1")
	stranger.send(kickoff)
	s.count(t, "unauthorized", 1)
	p := s.peer(t, "127.0.0.1", "127.0.0.1")
	p.send(`{"Type":"s2c","ID":"m","Seq":0}`) // an echo before the first datagram
	s.count(t, "unauthorized", 2)
	p.send(kickoff)
	text, _ := p.read()
	p.send(kickoff)
	s.count(t, "repeated", 1)
	invalid := []string{`{"Type":"s2c","ID":"m","Seq":-1}`, `{"Type":"s2c","ID":"m","Seq":9000000}`, `{"Type":"s2c","ID":"m","Seq":1e30}`, `{"Type":"x","ID":"m"}`, "", "\x00", `[]`, `{"Type":"s2c","ID":"m","Seq":0,"x":"` + string(make([]byte, 1000)) + `"}`}
	for _, datagram := range invalid {
		p.send(datagram)
	}
	s.count(t, "invalid", len(invalid))
	other := s.peer(t, "127.0.0.1", "127.0.0.1")
	other.send(string(text)) // the right address, another port
	stranger.send(string(text))
	s.count(t, "unauthorized", 4)
	p.send(string(text))
	s.count(t, "echo", 1)
	p.send(string(text))
	s.count(t, "repeated", 2)
	got, err := s.Result(t.Context(), "m", netip.MustParseAddr("127.0.0.1"))
	if err != nil || got.PacketsReceived != 1 || got.RoundTrips[0].Lost {
		t.Errorf("%+v, %v", got, err)
	}
	for _, quiet := range []*peer{stranger, other} {
		_ = quiet.SetReadDeadline(time.Now().Add(time.Millisecond))
		if n, err := quiet.Read(make([]byte, 100)); err == nil {
			t.Errorf("an unauthorized address draws a datagram of %d bytes", n)
		}
	}
}

func TestAClientWithoutEchoDrawsFewDatagrams(t *testing.T) {
	s := start(t, "127.0.0.1:0", func(o *Options) { o.Duration = time.Second })
	s.authorize(t, "m", "127.0.0.1")
	s.peer(t, "127.0.0.1", "127.0.0.1").send(kickoff)
	testutil.Eventually(t, time.Minute, "the record is stored", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.records) == 1 })
	if n, most := s.records[0].PacketsSent, freeDatagrams+int(time.Second/slowPause)+1; n > most || s.outcomes[0] != "the client echoed no datagram" {
		t.Errorf("%d datagrams, at most %d are allowed; outcome %s", n, most, s.outcomes[0])
	}
}

func TestTestsOfOthersAreOutOfReach(t *testing.T) {
	s := start(t, "127.0.0.1:0", nil)
	s.authorize(t, "m", "127.0.0.1")
	s.authorize(t, "m", "192.0.2.1") // the same ID at another address is another test
	s.authorize(t, "m", "127.0.0.1") // a repeated request
	s.peer(t, "127.0.0.1", "127.0.0.1").send(kickoff)
	s.count(t, "kickoff", 1)
	if _, err := s.Authorize("m", netip.MustParseAddr("127.0.0.1"), "uuid"); !errors.Is(err, ErrRunning) {
		t.Errorf("a running test is authorized again: %v", err)
	}
	if _, err := s.Result(t.Context(), "m", netip.MustParseAddr("192.0.2.9")); !errors.Is(err, ErrUnknown) {
		t.Errorf("another address fetches the result: %v", err)
	}
	if got, err := s.Result(t.Context(), "m", netip.MustParseAddr("192.0.2.1")); err != nil || got.PacketsSent != 0 {
		t.Errorf("a test without datagrams: %+v, %v", got, err)
	}
	if _, err := s.Result(t.Context(), "m", netip.MustParseAddr("127.0.0.1")); err != nil || s.Running() != 0 {
		t.Errorf("%d tests are left, %v", s.Running(), err)
	}
}

func TestTestsAreBounded(t *testing.T) {
	s := start(t, "127.0.0.1:0", nil)
	for i := range 10 { // half of 20
		s.authorize(t, fmt.Sprint(i), "192.0.2.1")
	}
	var rejection *admission.Rejection
	if _, err := s.Authorize("m", netip.MustParseAddr("192.0.2.1"), "uuid"); !errors.As(err, &rejection) || rejection.Kind != "share" {
		t.Errorf("one client has more than its share: %v", err)
	}
	s.authorize(t, "m", "192.0.2.2")
	if _, err := s.Result(t.Context(), "0", netip.MustParseAddr("192.0.2.1")); err != nil {
		t.Fatal(err)
	}
	if tests, _, _ := s.o.Gate.Running(); tests != 10 {
		t.Errorf("%d places are taken", tests)
	}
}

func TestALostRecordIsReported(t *testing.T) {
	s := start(t, "127.0.0.1:0", nil)
	s.fail = errors.New("input/output error")
	s.authorize(t, "m", "127.0.0.1")
	s.peer(t, "127.0.0.1", "127.0.0.1").send(kickoff)
	s.count(t, "kickoff", 1)
	if _, err := s.Result(t.Context(), "m", netip.MustParseAddr("127.0.0.1")); !errors.Is(err, s.fail) {
		t.Errorf("result of a lost record: %v", err)
	}
}

func TestAStoppingServerStoresRunningTests(t *testing.T) {
	s := start(t, "127.0.0.1:0", nil)
	s.authorize(t, "m", "127.0.0.1")
	s.authorize(t, "n", "127.0.0.1")
	p := s.peer(t, "127.0.0.1", "127.0.0.1")
	p.send(kickoff)
	p.echo()
	s.count(t, "echo", 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if len(s.records) != 1 || s.records[0].PacketsReceived != 1 {
		t.Errorf("records %+v", s.records)
	}
	if got, err := s.Result(t.Context(), "m", netip.MustParseAddr("127.0.0.1")); err != nil || got.PacketsReceived != 1 {
		t.Errorf("the result after the stop: %+v, %v", got, err)
	}
	if _, err := s.Authorize("o", netip.MustParseAddr("127.0.0.1"), "uuid"); err == nil {
		t.Error("a stopped server authorizes a test")
	}
}

func TestADrainLetsRunningTestsEnd(t *testing.T) {
	s := start(t, "127.0.0.1:0", nil)
	s.authorize(t, "m", "127.0.0.1")
	s.authorize(t, "n", "127.0.0.1") // sends no datagram
	p := s.peer(t, "127.0.0.1", "127.0.0.1")
	p.send(kickoff)
	p.echo()
	stored := s.Drain()
	var rejection *admission.Rejection
	if _, err := s.Authorize("o", netip.MustParseAddr("127.0.0.1"), "uuid"); !errors.As(err, &rejection) || rejection.Kind != "drain" {
		t.Errorf("a draining server authorizes a test: %v", err)
	}
	for range 5 {
		p.echo()
	}
	s.count(t, "echo", 6)
	select {
	case <-stored:
		t.Fatal("the test runs, and its record is stored")
	default:
	}
	if got, err := s.Result(t.Context(), "m", netip.MustParseAddr("127.0.0.1")); err != nil || got.PacketsReceived != 6 {
		t.Errorf("%+v, %v", got, err)
	}
	<-stored
	if len(s.records) != 1 || s.Running() != 0 {
		t.Errorf("%d records, %d tests", len(s.records), s.Running())
	}
}

// 100,000 mutated datagrams change nothing but counters.
func TestManyMutatedDatagrams(t *testing.T) {
	s := start(t, "127.0.0.1:0", nil)
	s.authorize(t, "m", "127.0.0.1")
	p := s.peer(t, "127.0.0.1", "127.0.0.1")
	p.send(kickoff)
	text, _ := p.read()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	from := p.LocalAddr().(*net.UDPAddr).AddrPort()
	results := map[string]int{}
	for range 100_000 {
		mutated := append([]byte(nil), text...)
		for range 1 + random.IntN(3) {
			mutated[random.IntN(len(mutated))] = byte(random.Uint32())
		}
		results[s.take(datagram{payload: mutated[:1+random.IntN(len(mutated))], from: from, to: s.address, at: time.Now()})]++
	}
	if results["kickoff"] != 0 || s.Running() != 1 {
		t.Errorf("results %v, %d tests", results, s.Running())
	}
	t.Logf("results %v", results)
}

func FuzzDatagram(f *testing.F) {
	f.Add([]byte(kickoff))
	f.Add([]byte(`{"Type":"s2c","ID":"m","Seq":1,"LastRTT":2}`))
	f.Add([]byte(`{"Type":"s2c","ID":"m","Seq":-1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := parse(text)
		if err != nil {
			return
		}
		if p.Seq < 0 || len(text) > maxDatagram || p.Type != typeKickoff && p.Type != typeProbe {
			t.Fatalf("%q: %+v", text, p)
		}
		k := &test{key: key{id: p.ID}, sent: make([]time.Time, 3), trips: []record.RoundTrip{{Lost: true}, {Lost: true}, {Lost: true}}}
		if result := k.echo(netip.AddrPort{}, p.Seq, time.Now()); (result == "echo") != (p.Seq < 3) {
			t.Fatalf("%q: %s", text, result)
		}
	})
}
