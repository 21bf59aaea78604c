// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/measure/archive"
	"weir/measure/client"
	"weir/measure/record"
)

// memory is a store for tests. fail and full make it behave like a broken and a full disk.
type memory struct {
	mu    sync.Mutex // guards the following fields
	texts map[string][]string
	fail  error
	full  error
	only  string        // the datatype of fail; "" for all
	pause time.Duration // of each Store; set it before the tests

	reserved atomic.Int64 // bytes
}

func (m *memory) Store(_ context.Context, datatype, _ string, _ time.Time, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	time.Sleep(m.pause)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil && (m.only == "" || m.only == datatype) {
		return m.fail
	}
	if m.texts == nil {
		m.texts = map[string][]string{}
	}
	m.texts[datatype] = append(m.texts[datatype], string(text))
	return nil
}

func (m *memory) Ready() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.full
}

func (m *memory) Admit(bytes int64) (func(), error) {
	if err := m.Ready(); err != nil {
		return nil, err
	}
	m.reserved.Add(bytes)
	return sync.OnceFunc(func() { m.reserved.Add(-bytes) }), nil
}

func (m *memory) set(fail, full error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail, m.full = fail, full
}

// ndt7 returns the stored records of ndt7.
func (m *memory) ndt7(t *testing.T) (all []record.NDT7) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, text := range m.texts["ndt7"] {
		var r record.NDT7
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&r); err != nil {
			t.Fatal(err)
		}
		if err := archive.Fit("ndt7", []byte(text)); err != nil {
			t.Errorf("M-Lab's archive would reject the record: %v", err)
		}
		all = append(all, r)
	}
	return all
}

func (m *memory) quality(t *testing.T) (all []record.Quality) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, text := range m.texts["quality1"] {
		var q record.Quality
		if err := json.Unmarshal([]byte(text), &q); err != nil {
			t.Fatal(err)
		}
		all = append(all, q)
	}
	return all
}

// site is a running server on loopback.
type site struct {
	*Server
	store *memory
	stop  context.CancelFunc
	ended chan error // receives the result of Run
}

// start runs a site until the end of the test. Its tests take 300 ms.
func start(t *testing.T, change func(*Config)) *site {
	t.Helper()
	certificate, err := SelfSigned("localhost", "127.0.0.1", "::1")
	if err != nil {
		t.Fatal(err)
	}
	store := &memory{}
	c := Config{
		Clear: "127.0.0.1:0", Secure: "127.0.0.1:0", Metrics: "127.0.0.1:0", Certificate: certificate, MaxTests: 20, Store: store,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Version: "1.2.3", TestDuration: 300 * time.Millisecond,
	}
	if change != nil {
		change(&c)
	}
	s, err := Listen(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	running := &site{Server: s, store: store, stop: stop, ended: make(chan error, 1)}
	go func() { running.ended <- s.Run(ctx); close(running.ended) }()
	t.Cleanup(func() {
		stop()
		<-running.ended
	})
	return running
}

// run runs a test of Weir's client.
func (s *site) run(t *testing.T, secure bool, direction record.Direction) client.Result {
	t.Helper()
	r, err := s.try(t.Context(), secure, direction)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (s *site) try(ctx context.Context, secure bool, direction record.Direction) (client.Result, error) {
	// The server ends the tests: its clock starts later than the client's on a busy host.
	o := client.Options{Server: client.Server{Host: "127.0.0.1", TLS: secure}, Address: s.ClearAddr(), Direction: direction, Insecure: true, Version: "9", Duration: 10 * time.Second}
	if secure {
		o.Address = s.SecureAddr()
	}
	return client.Run(ctx, o)
}

func (s *site) get(t *testing.T, path string) (status int, header http.Header, body map[string]any) {
	t.Helper()
	response, err := http.Get("http://" + s.ClearAddr().String() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if err := json.NewDecoder(response.Body).Decode(&body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header, body
}

// scrape returns the metrics.
func (s *site) scrape(t *testing.T) string {
	t.Helper()
	response, err := http.Get("http://" + s.MetricsAddr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
