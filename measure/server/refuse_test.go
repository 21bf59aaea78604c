// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	gorilla "github.com/gorilla/websocket"

	"weir/kernel/testutil"
	"weir/measure/client"
	"weir/measure/ndt7"
	"weir/measure/record"
)

// refused checks that tests, /v2/nearest and /health refuse with the reason.
func (s *site) refused(t *testing.T, reason string, health int) {
	t.Helper()
	_, err := s.try(t.Context(), false, record.Download)
	var busy *client.Busy
	if !errors.As(err, &busy) || busy.After < time.Second || !strings.Contains(err.Error(), reason) {
		t.Errorf("a test gets %v, want Retry-After and %q", err, reason)
	}
	status, header, body := s.get(t, "/v2/nearest/ndt/ndt7")
	problem, _ := body["error"].(map[string]any)
	if status != 429 || header.Get("Retry-After") == "" || header.Get("Access-Control-Allow-Origin") != "*" || !strings.Contains(problem["detail"].(string), reason) {
		t.Errorf("/v2/nearest answers %d %v %v", status, header, body)
	}
	if status, _, body := s.get(t, "/health"); status != health || health != 200 && !strings.Contains(body["detail"].(string), reason) {
		t.Errorf("/health answers %d %v, want %d", status, body, health)
	}
}

func TestTestsAboveTheMaximumAreRefused(t *testing.T) {
	s := start(t, func(c *Config) { c.MaxTests, c.TestDuration = 1, 20*time.Second })
	c := s.uploader(t)
	s.refused(t, "its maximum of tests is 1", 503)
	_ = c.Close()
	testutil.Eventually(t, time.Minute, "the place is free", func() bool { return s.check(s.gate, testAddress) == nil })
}

func TestAClientBlockHasAFairShare(t *testing.T) {
	s := start(t, func(c *Config) { c.MaxTests, c.TestDuration = 4, 20*time.Second })
	s.uploader(t)
	s.uploader(t)
	s.refused(t, "have its fair share, 2 of 4", 200)
	if r := s.check(s.gate, testAddress); r != nil {
		t.Errorf("another client is refused: %v", r)
	}
}

func TestAFullDiskRefusesTests(t *testing.T) {
	s := start(t, nil)
	s.store.set(nil, errors.New("the disk of the spool is full"))
	s.refused(t, "the disk of the spool is full", 503)
	s.store.set(nil, nil)
	if got := s.run(t, false, record.Upload); got.Streams[0].Close != 1000 {
		t.Errorf("after the disk has space: %+v", got)
	}
	if tests, _, _ := s.gate.Running(); tests > 1 {
		t.Errorf("%d tests run: a refused test keeps its place", tests)
	}
}

func TestALostRecordIsNoSuccess(t *testing.T) {
	s := start(t, nil)
	s.store.set(errors.New("input/output error"), nil)
	for _, direction := range []record.Direction{record.Download, record.Upload} {
		if got := s.run(t, false, direction); got.Streams[0].Close != 1011 || got.Streams[0].Err == nil || !strings.Contains(got.Streams[0].Reason, "could not be stored") {
			t.Errorf("%s: closed with %d %q, %v", direction, got.Streams[0].Close, got.Streams[0].Reason, got.Streams[0].Err)
		}
	}
}

// A client repeats a test that ended with 1011: its first record must not count.
func TestATestWithoutQualityLeavesNoRecord(t *testing.T) {
	s := start(t, nil)
	s.store.only = "quality1"
	s.store.set(errors.New("input/output error"), nil)
	if got := s.run(t, false, record.Upload); got.Streams[0].Close != 1011 {
		t.Errorf("closed with %d", got.Streams[0].Close)
	}
	if got := s.store.ndt7(t); len(got) != 0 {
		t.Errorf("%d records of a lost test", len(got))
	}
}

func TestADrainEndsAfterTheRunningTests(t *testing.T) {
	s := start(t, func(c *Config) { c.TestDuration = 20 * time.Second })
	c := s.uploader(t)
	s.stop()
	testutil.Eventually(t, time.Minute, "the site drains", func() bool { _, _, draining := s.gate.Running(); return draining })
	s.refused(t, "the server stops", 503)
	if err := c.WriteMessage(gorilla.CloseMessage, gorilla.FormatCloseMessage(1000, "")); err != nil {
		t.Fatal(err)
	}
	if _, closed := drain(t, c); closed == nil || closed.Code != 1000 {
		t.Errorf("the running test is closed by %v", closed)
	}
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
	if got := s.store.ndt7(t); len(got) != 1 {
		t.Errorf("%d records, want that of the running test", len(got))
	}
}

func TestWrongRequestsGetAProblemDocument(t *testing.T) {
	s := start(t, nil)
	for _, c := range []struct {
		name, path string
		protocol   string
		status     int
		reason     string
	}{
		{"no subprotocol", ndt7.DownloadPath, "", 400, "Sec-WebSocket-Protocol"},
		{"another subprotocol", ndt7.UploadPath, "net.measurementlab.ndt.v8", 400, ndt7.Subprotocol},
		{"a query of 4097 bytes", ndt7.UploadPath + "?a=" + strings.Repeat("x", 4095), ndt7.Subprotocol, 400, "4097 bytes"},
		{"a query that is not encoded", ndt7.UploadPath + "?a=%zz", ndt7.Subprotocol, 400, "%zz"},
		{"another early_exit", ndt7.DownloadPath + "?early_exit=100", ndt7.Subprotocol, 400, "250"},
		{"an unknown path", "/ndt/v8/download", ndt7.Subprotocol, 404, ndt7.DownloadPath},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.ClearAddr().String()+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{
			"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol": c.protocol,
		} {
			request.Header.Set(name, value)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		body, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if response.StatusCode != c.status || response.Header.Get("Content-Type") != "application/problem+json" || !strings.Contains(string(body), c.reason) {
			t.Errorf("%s: %d %s", c.name, response.StatusCode, body)
		}
	}
}

func TestNearestNamesThisServer(t *testing.T) {
	s := start(t, nil)
	status, header, body := s.get(t, "/v2/nearest/ndt/ndt7?client_name=page")
	results, _ := body["results"].([]any)
	if status != 200 || header.Get("Access-Control-Allow-Origin") != "*" || len(results) != 1 {
		t.Fatalf("%d %v", status, body)
	}
	urls := results[0].(map[string]any)["urls"].(map[string]any)
	for key, want := range map[string]string{
		"ws:///ndt/v7/download": "ws://" + s.ClearAddr().String() + "/ndt/v7/download?client_name=page",
		"wss:///ndt/v7/upload":  "wss://" + s.SecureAddr().String() + "/ndt/v7/upload?client_name=page",
	} {
		if urls[key] != want {
			t.Errorf("%s is %v, want %s", key, urls[key], want)
		}
	}
}

func TestURLsOmitTheUsualPort(t *testing.T) {
	for _, c := range []struct {
		host   string
		port   uint16
		scheme string
		want   string
	}{
		{"ndt.example.org", 443, "wss", "ndt.example.org"},
		{"ndt.example.org", 8443, "wss", "ndt.example.org:8443"},
		{"192.0.2.9", 80, "ws", "192.0.2.9"},
		{"192.0.2.9", 443, "ws", "192.0.2.9:443"},
		{"2001:db8::1", 443, "wss", "[2001:db8::1]"},
		{"[2001:db8::1]", 80, "ws", "[2001:db8::1]"},
		{"2001:db8::1", 8080, "ws", "[2001:db8::1]:8080"},
		{"[2001:db8::1]", 8080, "ws", "[2001:db8::1]:8080"},
	} {
		if got := hostPort(c.host, c.port, c.scheme); got != c.want {
			t.Errorf("%s, port %d of %s: %s, want %s", c.host, c.port, c.scheme, got, c.want)
		}
	}
}

func TestMetricsCountTests(t *testing.T) {
	s := start(t, nil)
	s.run(t, false, record.Upload)
	testutil.Eventually(t, time.Minute, "the test is counted", func() bool {
		text := s.scrape(t)
		return strings.Contains(text, `weir_measure_tests_total{direction="upload",outcome="complete",protocol="ndt7"} 1`) && strings.Contains(text, "weir_measure_store_seconds_count 1")
	})
}

// testAddress is a client of another block.
var testAddress = netip.MustParseAddr("192.0.2.7")
