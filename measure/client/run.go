// SPDX-License-Identifier: Apache-2.0

// Package client runs tests against a measurement server and judges its own figures: a rate that
// the client itself limited is reported as such.
package client

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"weir/measure/ndt7"
	"weir/measure/record"
	"weir/measure/socket"
)

// Options describe one test.
type Options struct {
	Server    Server
	Address   netip.AddrPort
	Direction record.Direction
	Bind      string // an address or an interface; "" for any
	Insecure  bool   // accept any certificate
	Version   string // of this program
	Progress  func(Progress)

	// Duration shortens the tests of a test; 0 is the protocol's 10 s.
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
	Local      string           `json:"local"`
	Family     string           `json:"family"`
	TLS        bool             `json:"tls"`
	Direction  record.Direction `json:"direction"`
	UUID       string           `json:"uuid,omitempty"`
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
	ClientCPU     float64  `json:"client_cpu"` // CPUs used by this process
	Valid         bool     `json:"valid"`
	Reason        string   `json:"reason,omitempty"` // reason why the figures do not describe the network
	Notes         []string `json:"notes"`

	Raw ndt7.ClientResult `json:"-"`
}

// maxCPU is the number of CPUs above which the client itself may limit the rate: one goroutine
// reads or writes.
const maxCPU = 0.9

// Run runs one test.
func Run(ctx context.Context, o Options) (Result, error) {
	conn, sock, err := open(ctx, o)
	if err != nil {
		return Result{}, err
	}
	var sampler socket.Sampler
	before := cpuTime()
	raw := ndt7.Measure(ctx, ndt7.ClientTest{
		Conn: conn, Socket: sock, Sampler: &sampler, Direction: o.Direction, Duration: o.Duration, Progress: func(e ndt7.Event) {
			if o.Progress != nil {
				o.Progress(progress(e))
			}
		},
	})
	used := cpuTime() - before
	if ctx.Err() != nil {
		return Result{}, ctx.Err()
	}
	local, remote := conn.LocalAddr().String(), o.Address
	r := Result{
		Server: o.Server.URL(), Address: remote.String(), Local: local, Family: familyOf(remote.Addr()).String(), TLS: o.Server.TLS, Direction: o.Direction,
		Started: raw.Started.UTC(), Duration: raw.Elapsed.Seconds(), Payload: raw.Payload, ClientCPU: used.Seconds() / max(time.Since(raw.Started).Seconds(), 0.001),
		Notes: []string{}, Raw: raw,
	}
	r.figures(raw)
	r.judge(raw, o, local)
	return r, nil
}

func familyOf(a netip.Addr) Family {
	if a.Unmap().Is4() {
		return IPv4
	}
	return IPv6
}

func progress(e ndt7.Event) Progress {
	p := Progress{At: e.At}
	if a := e.AppInfo; a != nil && a.ElapsedTime > 0 {
		p.Rate = float64(a.NumBytes) * 8e6 / float64(a.ElapsedTime)
	}
	if e.TCPInfo != nil && e.Test == record.Download {
		p.RTT = time.Duration(e.TCPInfo.RTT) * time.Microsecond
	}
	return p
}

// figures computes the results. The receiver counts the rate, the sender's TCP the RTT and the
// retransmissions.
func (r *Result) figures(raw ndt7.ClientResult) {
	last := lastOfServer(raw.Events)
	if last != nil && last.ConnectionInfo != nil {
		r.UUID = last.ConnectionInfo.UUID
	}
	var sender *record.TCPInfo
	var rtts []float64
	if r.Direction == record.Download {
		r.RateSource = "payload that the client received"
		if raw.Elapsed > 0 {
			r.Rate = float64(raw.Payload) * 8 / raw.Elapsed.Seconds()
		}
		for _, e := range raw.Events {
			if e.Origin == "server" && e.TCPInfo != nil {
				sender = e.TCPInfo
				rtts = append(rtts, float64(e.TCPInfo.RTT)/1e6)
			}
		}
	} else {
		r.uploadRate(raw, last)
		sender = raw.Last
		for _, rtt := range raw.Samples.RTT {
			rtts = append(rtts, float64(rtt)/1e6)
		}
	}
	if sender != nil {
		if sender.MinRTT > 0 {
			r.MinRTT = pointer(float64(sender.MinRTT) / 1e6)
		}
		if sender.BytesSent > 0 {
			r.Retransmitted = pointer(float64(sender.BytesRetrans) / float64(sender.BytesSent))
		}
	}
	if len(rtts) > 0 {
		slices.Sort(rtts)
		r.LoadedRTT = pointer(rtts[len(rtts)/2])
	}
}

// uploadRate takes the receiver's figure. A sender counts bytes that are still in its buffers.
func (r *Result) uploadRate(raw ndt7.ClientResult, last *record.Measurement) {
	if raw.Elapsed > 0 {
		r.SenderRate = pointer(float64(raw.Payload) * 8 / raw.Elapsed.Seconds())
	}
	switch {
	case last != nil && last.AppInfo != nil && last.AppInfo.ElapsedTime > 0:
		r.Rate, r.RateSource = float64(last.AppInfo.NumBytes)*8e6/float64(last.AppInfo.ElapsedTime), "payload that the server received"
		r.Payload, r.Duration = uint64(last.AppInfo.NumBytes), float64(last.AppInfo.ElapsedTime)/1e6
	case last != nil && last.TCPInfo != nil && last.TCPInfo.ElapsedTime > 0:
		r.Rate, r.RateSource = float64(last.TCPInfo.BytesReceived)*8e6/float64(last.TCPInfo.ElapsedTime), "TCP bytes that the server received, overheads included"
		r.Duration = float64(last.TCPInfo.ElapsedTime) / 1e6
	case r.SenderRate != nil:
		r.Rate, r.RateSource = *r.SenderRate, "bytes that the client wrote to its socket"
	}
}

// judge adds notes and rejects figures that do not describe the network.
func (r *Result) judge(raw ndt7.ClientResult, o Options, local string) {
	r.Valid = true
	reject := func(format string, args ...any) {
		if r.Valid {
			r.Valid, r.Reason = false, fmt.Sprintf(format, args...)
		}
	}
	duration := o.Duration
	if duration == 0 {
		duration = ndt7.Duration
	}
	switch {
	case raw.Err != nil:
		reject("the test failed: %v", raw.Err)
	case o.Address.Addr().IsLoopback():
		reject("the server is on this host: the figures are those of the loopback device")
	case r.Duration < duration.Seconds()*0.9:
		reject("the server ended the test after %.1f s", r.Duration)
	case r.Payload == 0:
		reject("no payload arrived")
	case r.ClientCPU >= maxCPU:
		reject("the client used %.0f %% of a CPU: the rate may be its own limit", r.ClientCPU*100)
	}
	last := lastOfServer(raw.Events)
	switch {
	case last == nil:
		r.Notes = append(r.Notes, "The server sent no measurements: RTT, retransmissions and the identifier of a download are not known.")
	case last.ConnectionInfo != nil && last.ConnectionInfo.Client != local:
		r.Notes = append(r.Notes, fmt.Sprintf("The server sees the client as %s, not %s: address translation or a proxy is on the path. A proxy ends TCP: then RTT and retransmissions are those of one of its sides.", last.ConnectionInfo.Client, local))
	}
	if r.Direction == record.Upload && r.RateSource == "bytes that the client wrote to its socket" {
		r.Notes = append(r.Notes, "The upload rate is the sender's: it counts bytes that were still in its buffers.")
	}
	if raw.Close == 0 && raw.Err == nil {
		r.Notes = append(r.Notes, "The server sent no Close frame.")
	}
}

func lastOfServer(events []ndt7.Event) *record.Measurement {
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

func pointer(v float64) *float64 { return &v }
