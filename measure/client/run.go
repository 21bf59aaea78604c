// SPDX-License-Identifier: Apache-2.0

// Package client runs tests against a measurement server and judges its own figures: a rate that
// the client itself limited is reported as such.
package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"weir/measure/msak"
	"weir/measure/ndt7"
	"weir/measure/record"
	"weir/measure/session"
	"weir/measure/socket"
)

// Test is a kind of test.
type Test string

const (
	NDT7 Test = "ndt7"
	MSAK Test = "msak"
	// Latency has no direction: its datagrams go to the client and back.
	Latency Test = "latency"
)

// Options describe one test.
type Options struct {
	Server     Server
	Address    netip.AddrPort
	Test       Test // NDT7 if empty
	Direction  record.Direction
	Streams    int    // connections of MSAK at the same time; 1 if 0
	Congestion string // congestion control of MSAK's sender; "" for its default
	Bind       string // an address or an interface; "" for any
	Insecure   bool   // accept any certificate
	Version    string // of this program
	Progress   func(Progress)

	Token       string // access token of the site; "" for none
	LatencyPort uint16 // UDP port of the server's latency tests; 0 for 1053

	// Duration is the time of a test; 0 is the default of its protocol: 10 s, MSAK 5 s.
	Duration time.Duration
}

// Progress is one figure while a test runs.
type Progress struct {
	At   time.Duration // since the start of the test
	Rate float64       // bit/s of payload since the start
	RTT  time.Duration // smoothed by the sender's kernel; 0 if it is not known
}

// Result is the outcome of one test. Rates are in bit/s, times in s. Pointers are nil if the figure
// could not be measured.
type Result struct {
	Server     string           `json:"server"`
	Address    string           `json:"address"`
	Local      string           `json:"local"` // of the first stream
	Family     string           `json:"family"`
	TLS        bool             `json:"tls"`
	Test       Test             `json:"test"`
	Direction  record.Direction `json:"direction,omitempty"`
	UUID       string           `json:"uuid,omitempty"` // of the first stream
	Started    time.Time        `json:"started"`
	Duration   float64          `json:"duration"` // until the last payload
	Payload    uint64           `json:"payload_bytes"`
	Rate       float64          `json:"rate"`
	RateSource string           `json:"rate_source"`
	// SenderRate is the rate of an upload's writes to the own socket: bytes that remain in buffers
	// make it higher than Rate.
	SenderRate    *float64 `json:"sender_rate,omitempty"`
	MinRTT        *float64 `json:"min_rtt"`
	LoadedRTT     *float64 `json:"loaded_rtt"` // median of the sender's smoothed RTT
	Retransmitted *float64 `json:"retransmitted"`
	// The following figures are those of a latency test: quantiles of the round-trip times without
	// load, the share of lost datagrams, and the server's result.
	MedianRTT  *float64               `json:"median_rtt,omitempty"`
	P95RTT     *float64               `json:"p95_rtt,omitempty"`
	Lost       *float64               `json:"lost,omitempty"`
	RoundTrips *record.LatencySummary `json:"round_trips,omitempty"`
	// MeasurementID joins the streams of MSAK, and is the ID of a latency test. Congestion is the
	// sender's congestion control; "" if it is not known.
	MeasurementID string    `json:"measurement_id,omitempty"`
	StreamRates   []float64 `json:"stream_rates,omitempty"`
	Congestion    string    `json:"congestion_control,omitempty"`
	ClientCPU     float64   `json:"client_cpu"` // CPUs used by this process
	Valid         bool      `json:"valid"`
	Reason        string    `json:"reason,omitempty"` // reason why the figures do not describe the network
	Notes         []string  `json:"notes"`

	Streams []session.ClientResult `json:"-"`
}

// maxCPU is the number of CPUs for each stream above which the client itself may limit the rate:
// one goroutine reads or writes.
const maxCPU = 0.9

// Run runs one test.
func Run(ctx context.Context, o Options) (Result, error) {
	if o.Test == "" {
		o.Test = NDT7
	}
	if o.Test == Latency {
		return o.runLatency(ctx)
	}
	if o.Duration == 0 {
		o.Duration = map[Test]time.Duration{NDT7: ndt7.Duration, MSAK: msak.DefaultDuration}[o.Test]
	}
	if o.Streams = max(o.Streams, 1); o.Test == NDT7 {
		o.Streams = 1
	}
	options := msak.Options{MeasurementID: newID(), Streams: o.Streams, Duration: o.Duration, Congestion: o.Congestion}
	before := cpuTime()
	start := time.Now()
	streams, local, err := o.runStreams(ctx, options)
	used := cpuTime() - before
	if ctx.Err() != nil {
		return Result{}, ctx.Err()
	}
	if err != nil {
		return Result{}, err
	}
	r := Result{
		Server: o.Server.URL(), Address: o.Address.String(), Local: local[0], Family: familyOf(o.Address.Addr()).String(), TLS: o.Server.TLS, Test: o.Test,
		Direction: o.Direction, Started: streams[0].Started.UTC(), ClientCPU: used.Seconds() / max(time.Since(start).Seconds(), 0.001), Notes: []string{}, Streams: streams,
	}
	if o.Test == MSAK {
		r.MeasurementID, r.Congestion = options.MeasurementID, streams[0].Congestion
	}
	r.combine(streams)
	r.judge(o, local)
	return r, nil
}

// newID returns a measurement ID.
func newID() string {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never returns an error
	return hex.EncodeToString(id)
}

// runStreams opens and runs the connections of a test. local are their own addresses.
func (o Options) runStreams(ctx context.Context, m msak.Options) (results []session.ClientResult, local []string, err error) {
	results, local = make([]session.ClientResult, o.Streams), make([]string, o.Streams)
	sum := &progressSum{latest: make([]Progress, o.Streams), to: o.Progress}
	var sampler socket.Sampler
	all, ctx := errgroup.WithContext(ctx)
	for i := range o.Streams {
		all.Go(func() error {
			conn, sock, err := open(ctx, o, m)
			if err != nil {
				return err
			}
			local[i] = conn.LocalAddr().String()
			t := session.ClientTest{Conn: conn, Socket: sock, Sampler: &sampler, Direction: o.Direction, Duration: o.Duration, Progress: func(e session.Event) { sum.add(i, progress(e)) }}
			if o.Test == MSAK {
				results[i] = msak.Measure(ctx, t, m)
			} else {
				results[i] = ndt7.Measure(ctx, t)
			}
			return nil
		})
	}
	err = all.Wait()
	return results, local, err
}

// progressSum adds the rates of streams. It is safe for concurrent use.
type progressSum struct {
	mu     sync.Mutex // guards latest and calls of to
	latest []Progress
	to     func(Progress)
}

func (s *progressSum) add(i int, p Progress) {
	if s.to == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest[i] = p
	for j, other := range s.latest {
		if j != i {
			p.Rate += other.Rate
		}
	}
	s.to(p)
}

func familyOf(a netip.Addr) Family {
	if a.Unmap().Is4() {
		return IPv4
	}
	return IPv6
}

func progress(e session.Event) Progress {
	p := Progress{At: e.At}
	if a := e.AppInfo; a != nil && a.ElapsedTime > 0 {
		p.Rate = float64(a.NumBytes) * 8e6 / float64(a.ElapsedTime)
	}
	if e.TCPInfo != nil && e.Test == record.Download {
		p.RTT = time.Duration(e.TCPInfo.RTT) * time.Microsecond
	}
	return p
}

// judge adds notes and rejects figures that do not describe the network.
func (r *Result) judge(o Options, local []string) {
	r.Valid = true
	reject := func(format string, args ...any) {
		if r.Valid {
			r.Valid, r.Reason = false, fmt.Sprintf(format, args...)
		}
	}
	for _, raw := range r.Streams {
		if raw.Err != nil {
			reject("the test failed: %v", raw.Err)
		}
	}
	switch {
	case o.Address.Addr().IsLoopback():
		reject("the server is on this host: the figures are those of the loopback device")
	case r.Duration < o.Duration.Seconds()*0.9:
		reject("the server ended the test after %.1f s", r.Duration)
	case r.Payload == 0:
		reject("no payload arrived")
	case r.ClientCPU >= maxCPU*float64(min(len(r.Streams), runtime.NumCPU())):
		reject("the client used %.0f %% of a CPU: the rate may be its own limit", r.ClientCPU*100)
	}
	last, raw := lastOfServer(r.Streams[0].Events), r.Streams[0]
	switch {
	case last == nil:
		r.Notes = append(r.Notes, "The server sent no measurements: RTT, retransmissions and the identifier of a download are not known.")
	case last.ConnectionInfo != nil && last.ConnectionInfo.Client != local[0]:
		r.Notes = append(r.Notes, fmt.Sprintf("The server sees the client as %s, not %s: address translation or a proxy is on the path. A proxy ends TCP: then RTT and retransmissions are those of one of its sides.", last.ConnectionInfo.Client, local[0]))
	}
	if r.Direction == record.Upload && r.RateSource == sourceSender {
		r.Notes = append(r.Notes, "The upload rate is the sender's: it counts bytes that were still in its buffers.")
	}
	if raw.Close == 0 && raw.Err == nil {
		r.Notes = append(r.Notes, "The server sent no Close frame.")
	}
	if o.Test == MSAK && o.Congestion != "" && r.Congestion != o.Congestion {
		r.Notes = append(r.Notes, fmt.Sprintf("The sender's congestion control is %s, not %s: its kernel does not have or allow it.", cmp.Or(r.Congestion, "not known"), o.Congestion))
	}
}

func lastOfServer(events []session.Event) *record.Measurement {
	for i := len(events) - 1; i >= 0; i-- {
		if events[i].Origin == "server" {
			return &events[i].Measurement
		}
	}
	return nil
}

// cpuTime returns the CPU time of this process.
func cpuTime() time.Duration {
	var usage unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
