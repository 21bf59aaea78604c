// SPDX-License-Identifier: Apache-2.0

package client

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir/internal/fault"
	"weir/measure/record"
	"weir/measure/session"
	"weir/measure/websocket"
)

func TestServers(t *testing.T) {
	for in, want := range map[string]string{
		"ndt.example.org":                "wss://ndt.example.org:443",
		"ndt.example.org:8443":           "wss://ndt.example.org:8443",
		"wss://192.0.2.9":                "wss://192.0.2.9:443",
		"ws://192.0.2.9:8080/":           "ws://192.0.2.9:8080",
		"ws://[2001:db8::1]":             "ws://[2001:db8::1]:80",
		"2001:db8::1":                    "wss://[2001:db8::1]:443",
		"[2001:db8::1]:8443":             "wss://[2001:db8::1]:8443",
		"https://ndt.example.org":        "",
		"ws://":                          "",
		"":                               "",
		"ndt.example.org/path":           "",
		"ws://user@ndt.example.org":      "",
		"ndt.example.org:port":           "",
		"ws://ndt.example.org?a=b":       "",
		"ws://ndt.example.org/ndt/v7/up": "",
	} {
		s, err := ParseServer(in)
		if want == "" {
			if fault.Of(err) != fault.Usage || fault.Advice(err) == "" {
				t.Errorf("%q: %v, %v", in, s, err)
			}
		} else if err != nil || s.URL() != want {
			t.Errorf("%q: %s, %v; want %s", in, s.URL(), err, want)
		}
	}
}

func TestRejectionsHaveTheServersReason(t *testing.T) {
	for _, c := range []struct {
		r    websocket.Refused
		want string
		busy bool
	}{
		{websocket.Refused{Status: 429, RetryAfter: "9", Body: `{"title":"t","detail":"the server is full"}`}, "429 Too Many Requests: the server is full", true},
		{websocket.Refused{Status: 503}, "503 Service Unavailable", true},
		{websocket.Refused{Status: 401, Body: `{"detail":"the access token is missing"}`}, "401 Unauthorized: the access token is missing", false},
		{websocket.Refused{Status: 404, Body: "<html>"}, "404 Not Found", false},
	} {
		err := rejection(&c.r, NDT7)
		_, busy := err.(*Busy)
		if !strings.HasSuffix(err.Error(), c.want) || busy != c.busy || fault.Advice(err) == "" {
			t.Errorf("%+v: %v, busy %v", c.r, err, busy)
		}
	}
}

// event is a measurement of a server.
func event(m record.Measurement) session.Event {
	m.Origin = "server"
	return session.Event{Measurement: m}
}

func TestAnUploadIsCountedByTheServer(t *testing.T) {
	raw := session.ClientResult{Elapsed: 1e10, Payload: 20e6}
	for _, c := range []struct {
		events []session.Event
		rate   float64
		source string
	}{
		{nil, 16e6, "bytes that the client wrote to its socket"},
		{[]session.Event{event(record.Measurement{TCPInfo: &record.TCPInfo{BytesReceived: 11e6, ElapsedTime: 10e6}})}, 8.8e6, "TCP bytes that the server received, overheads included"},
		{[]session.Event{event(record.Measurement{TCPInfo: &record.TCPInfo{BytesReceived: 11e6, ElapsedTime: 10e6}, AppInfo: &record.AppInfo{NumBytes: 10e6, ElapsedTime: 10e6}})}, 8e6, "payload that the server received"},
	} {
		raw.Events = c.events
		r := Result{Direction: record.Upload}
		r.combine([]session.ClientResult{raw})
		if r.Rate != c.rate || r.RateSource != c.source || *r.SenderRate != 16e6 {
			t.Errorf("%g bit/s by %s, sender %g; want %g by %s", r.Rate, r.RateSource, *r.SenderRate, c.rate, c.source)
		}
	}
}

func TestFiguresThatDoNotDescribeTheNetwork(t *testing.T) {
	far, local := netip.MustParseAddrPort("192.0.2.9:443"), "192.0.2.1:5000"
	last := event(record.Measurement{ConnectionInfo: &record.ConnectionInfo{Client: local}})
	for _, c := range []struct {
		name    string
		change  func(*Result, *session.ClientResult, *Options)
		valid   bool
		reason  string
		remarks int
	}{
		{"a good test", func(*Result, *session.ClientResult, *Options) {}, true, "", 0},
		{"loopback", func(_ *Result, _ *session.ClientResult, o *Options) { o.Address = netip.MustParseAddrPort("[::1]:443") }, false, "loopback", 0},
		{"a busy client", func(r *Result, _ *session.ClientResult, _ *Options) { r.ClientCPU = 0.95 }, false, "95 % of a CPU", 0},
		{"a short test", func(r *Result, _ *session.ClientResult, _ *Options) { r.Duration = 8.9 }, false, "8.9 s", 0},
		{"nothing arrived", func(r *Result, _ *session.ClientResult, _ *Options) { r.Payload = 0 }, false, "no payload", 0},
		{"a failure", func(_ *Result, raw *session.ClientResult, _ *Options) {
			raw.Err = websocket.Violation(1002, "wrong frame")
		}, false, "wrong frame", 0},
		{"address translation", func(_ *Result, raw *session.ClientResult, _ *Options) {
			raw.Events = []session.Event{event(record.Measurement{ConnectionInfo: &record.ConnectionInfo{Client: "198.51.100.7:4000"}})}
		}, true, "", 1},
		{"a silent server", func(_ *Result, raw *session.ClientResult, _ *Options) { raw.Events = nil }, true, "", 1},
		{"no Close", func(_ *Result, raw *session.ClientResult, _ *Options) { raw.Close = 0 }, true, "", 1},
	} {
		r := Result{Direction: record.Download, Duration: 9.9, Payload: 1, ClientCPU: 0.2}
		raw, o := session.ClientResult{Close: 1000, Events: []session.Event{last}}, Options{Address: far, Duration: 10 * time.Second}
		c.change(&r, &raw, &o)
		r.Streams = []session.ClientResult{raw}
		r.judge(o, []string{local})
		if r.Valid != c.valid || !strings.Contains(r.Reason, c.reason) || len(r.Notes) != c.remarks {
			t.Errorf("%s: valid %v, %q, notes %q", c.name, r.Valid, r.Reason, r.Notes)
		}
	}
}

// streamOf is a stream of an upload that starts at second start and moves rate byte/s until end.
func streamOf(start, end, rate float64) session.ClientResult {
	raw := session.ClientResult{Started: time.Unix(0, int64(start*1e9))}
	for at := 0.5; at <= end-start; at += 0.5 {
		raw.Events = append(raw.Events, event(record.Measurement{AppInfo: &record.AppInfo{NumBytes: int64(rate * at), ElapsedTime: int64(at * 1e6)}}))
	}
	return raw
}

func TestTheRateOfStreamsIsThatOfTheirCommonTime(t *testing.T) {
	r := Result{Direction: record.Upload}
	r.combine([]session.ClientResult{streamOf(0, 5, 1e6), streamOf(0.5, 5.5, 2e6), streamOf(1, 4, 3e6)})
	if r.Rate < 47.999e6 || r.Rate > 48.001e6 || r.RateSource != sourceServer+whileAllStream || len(r.StreamRates) != 3 || r.Payload != 24e6 || r.Duration != 5 {
		t.Errorf("%+v", r)
	}
	apart := []session.ClientResult{streamOf(0, 1, 1e6), streamOf(2, 3, 1e6)}
	if _, ok := commonRate(apart, record.Upload); ok {
		t.Error("streams without a common time have a common rate")
	}
	silent := append(apart, session.ClientResult{Payload: 5, Elapsed: time.Second})
	r = Result{Direction: record.Upload}
	if r.combine(silent); r.RateSource != sourceSender {
		t.Errorf("one stream is counted by its sender, the source is %q", r.RateSource)
	}
}
