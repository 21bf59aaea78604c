// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir/kernel/testutil"
	"weir/measure/archive"
	"weir/measure/client"
	"weir/measure/latency"
	"weir/measure/record"
)

// startLatency runs a site with latency tests of a second.
func startLatency(t *testing.T) *site {
	t.Helper()
	return start(t, func(c *Config) { c.Latency, c.TestDuration = "127.0.0.1:0", time.Second })
}

func TestLatencyInClearAndOverTLS(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := startLatency(t)
	for _, secure := range []bool{false, true} {
		s.store.texts = nil
		o := client.Options{
			Server: client.Server{Host: "127.0.0.1", Port: fmt.Sprint(s.ClearAddr().Port()), TLS: secure}, Address: s.ClearAddr(), Test: client.Latency,
			LatencyPort: s.LatencyAddr().Port(), Insecure: true, Version: "9", Duration: time.Second,
		}
		if secure {
			o.Address = s.SecureAddr()
		}
		got, err := client.Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if got.MedianRTT == nil || got.MinRTT == nil || got.P95RTT == nil || *got.Lost < 0 || *got.Lost >= 1 || got.RoundTrips.ID != got.MeasurementID || got.Valid {
			t.Errorf("TLS %v: %+v", secure, got)
		}
		var r record.Latency
		text := s.store.texts["latency1"]
		if len(text) != 1 {
			t.Fatalf("TLS %v: %d records", secure, len(text))
		}
		if err := errors.Join(json.Unmarshal([]byte(text[0]), &r), archive.Fit("latency1", []byte(text[0]))); err != nil {
			t.Fatal(err)
		}
		if r.ID != got.MeasurementID || r.UUID == "" || r.Client != got.Local || r.PacketsReceived != got.RoundTrips.PacketsReceived || len(r.RoundTrips) != r.PacketsSent {
			t.Errorf("TLS %v: record %+v of %+v", secure, r, got.RoundTrips)
		}
	}
	testutil.Eventually(t, time.Minute, "the tests are counted", func() bool {
		text := s.scrape(t)
		return strings.Contains(text, `weir_measure_datagrams_total{result="kickoff"} 2`) && strings.Contains(text, `protocol="latency1"} 2`)
	})
}

func TestWrongLatencyRequests(t *testing.T) {
	s := startLatency(t)
	for _, c := range []struct {
		path   string
		status int
		reason string
	}{
		{latency.AuthorizePath, 400, "mid"},
		{latency.AuthorizePath + "?mid=" + strings.Repeat("m", 129), 400, "129 bytes"},
		{latency.AuthorizePath + "?mid=a%00b", 400, "control characters"},
		{latency.ResultPath, 400, "mid"},
		{latency.ResultPath + "?mid=unknown", 404, "no such measurement"},
	} {
		if status, _, body := s.get(t, c.path); status != c.status || !strings.Contains(fmt.Sprint(body), c.reason) {
			t.Errorf("%.60s: %d %v", c.path, status, body)
		}
	}
	if status, _, body := s.get(t, "/v2/nearest/msak/latency1"); status != 200 || !strings.Contains(fmt.Sprint(body), "https:///latency/v1/authorize") {
		t.Errorf("/v2/nearest/msak/latency1: %d %v", status, body)
	}
	s.store.set(nil, errors.New("the disk of the spool is full"))
	if status, header, body := s.get(t, latency.AuthorizePath+"?mid=m"); status != 429 || header.Get("Retry-After") == "" || !strings.Contains(fmt.Sprint(body), "disk") {
		t.Errorf("a full disk: %d %v", status, body)
	}
	s.store.set(nil, nil)
	response, err := http.Post("http://"+s.ClearAddr().String()+latency.AuthorizePath+"?mid=m", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != 200 {
		t.Errorf("POST: %d", response.StatusCode)
	}
}

// A test reserves its space before it runs, also without any datagram from its client.
func TestLatencyTestsReserveSpace(t *testing.T) {
	s := startLatency(t)
	for _, id := range []string{"m", "n", "m"} { // the third request repeats the first
		if status, _, body := s.get(t, latency.AuthorizePath+"?mid="+id); status != 200 {
			t.Fatalf("%d %v", status, body)
		}
	}
	if got := s.store.reserved.Load(); got != 2*latencySpace {
		t.Errorf("%d bytes are reserved for two tests, want %d", got, 2*latencySpace)
	}
	for _, id := range []string{"m", "n"} {
		s.get(t, latency.ResultPath+"?mid="+id)
	}
	if got := s.store.reserved.Load(); got != 0 {
		t.Errorf("%d bytes are reserved after the tests", got)
	}
}

// The UUID of a record is that of the connection of its authorization.
func TestAConnectionAuthorizesOneLatencyTest(t *testing.T) {
	s := startLatency(t)
	for _, id := range []string{"m", "n"} {
		response, err := http.Get("http://" + s.ClearAddr().String() + latency.AuthorizePath + "?mid=" + id)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != 200 || !response.Close {
			t.Errorf("%d, the connection stays open: %v", response.StatusCode, !response.Close)
		}
	}
}

// A result waits for its record longer than for other answers.
func TestASlowStoreStillAnswersWithTheResult(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := start(t, func(c *Config) { c.Latency, c.answerTime = "127.0.0.1:0", 500*time.Millisecond })
	s.store.pause = 2 * time.Second
	if status, _, body := s.get(t, latency.AuthorizePath+"?mid=m"); status != 200 {
		t.Fatalf("%d %v", status, body)
	}
	conn, err := net.Dial("udp", s.LatencyAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte(`{"Type":"c2s","ID":"m","Seq":0}`)); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, time.Minute, "the test begins", func() bool {
		return strings.Contains(s.scrape(t), `weir_measure_datagrams_total{result="kickoff"} 1`)
	})
	if status, _, body := s.get(t, latency.ResultPath+"?mid=m"); status != 200 {
		t.Errorf("%d %v", status, body)
	}
}

func TestASiteWithoutLatencyTests(t *testing.T) {
	s := start(t, nil)
	if status, _, body := s.get(t, latency.AuthorizePath+"?mid=m"); status != 404 {
		t.Errorf("%d %v", status, body)
	}
}
