// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/measure/admission"
	"weir/measure/ndt7"
	"weir/measure/record"
	"weir/measure/socket"
	"weir/measure/websocket"
)

// connection is the key of the accepted connection in a request's context.
type connection struct{}

// runTest is the handler of an ndt7 test.
func (s *Server) runTest(direction record.Direction) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if reason := websocket.CheckUpgrade(r, ndt7.Subprotocol); reason != "" {
			newProblem(http.StatusBadRequest, "The request is no ndt7 test", reason).write(w)
			return
		}
		metadata, exit, err := parseQuery(r.URL.RawQuery)
		if err != nil {
			newProblem(http.StatusBadRequest, "The query string is not valid", err.Error()).write(w)
			return
		}
		client, _ := clientOf(r)
		release, concurrent, rejection := s.admit(client)
		if rejection != nil {
			s.metrics.refused.WithLabelValues(rejection.Kind).Inc()
			refuse(w, rejection).write(w)
			return
		}
		defer release()
		t := ndt7.Test{
			Sampler: &s.sampler, Direction: direction, EarlyExit: exit, Concurrent: concurrent, TLS: r.TLS != nil,
			ClientMetadata: metadata, Version: s.config.Version, Commit: s.config.Commit, Duration: s.config.TestDuration,
		}
		if s.config.TestDuration > 0 {
			t.MaxDuration = s.config.TestDuration + ndt7.MaxDuration - ndt7.Duration
		}
		conn, _ := r.Context().Value(connection{}).(net.Conn)
		if err := s.prepare(&t, conn); err != nil {
			s.config.Log.Error("cannot measure a connection", "client", r.RemoteAddr, "reason", err)
			newProblem(http.StatusInternalServerError, "The server cannot measure this connection", err.Error()).write(w)
			return
		}
		if t.Conn, err = websocket.Upgrade(w, r, ndt7.Subprotocol, ndt7.Limits); err != nil {
			s.metrics.tests.WithLabelValues(string(direction), "handshake").Inc()
			return
		}
		s.serve(t)
	}
}

// prepare sets the socket's options and names the connection.
func (s *Server) prepare(t *ndt7.Test, conn net.Conn) (err error) {
	if t.Socket, err = socket.Of(conn); err != nil {
		return err
	}
	if t.UUID, err = t.Socket.UUID(); err != nil {
		return err
	}
	t.Accepted = acceptTime(conn)
	if s.config.Congestion != "" {
		t.Congestion = s.config.Congestion
		if err := t.Socket.SetCongestion(t.Congestion); err != nil {
			t.CongestionError = err.Error()
		}
	}
	// ndt7's records cannot name the congestion control: BBRInfo is always there.
	t.ServerMetadata = []record.NameValue{{Name: "congestion_control", Value: t.Socket.Congestion()}}
	return nil
}

// serve runs the test, and logs and counts its outcome.
func (s *Server) serve(t ndt7.Test) {
	direction := string(t.Direction)
	s.metrics.running.WithLabelValues(direction).Inc()
	defer s.metrics.running.WithLabelValues(direction).Dec()
	result := ndt7.Serve(s.tests, t, func(n *record.NDT7, q *record.Quality) error {
		// A stopping server still stores the records of its tests.
		ctx, cancel := context.WithTimeout(context.Background(), storeTime)
		defer cancel()
		start := time.Now()
		err := errors.Join(s.config.Store.Store(ctx, "ndt7", t.UUID, n.StartTime, n), s.config.Store.Store(ctx, "quality1", t.UUID, q.StartTime, q))
		s.metrics.stored.Observe(time.Since(start).Seconds())
		return err
	})
	outcome := result.Quality.Outcome
	if outcome != "complete" && outcome != "short" {
		s.config.Log.Info("a test failed", "uuid", t.UUID, "direction", direction, "reason", outcome)
		outcome = "failed"
	}
	if result.StoreError != nil {
		s.config.Log.Error("the record of a test is lost", "uuid", t.UUID, "reason", result.StoreError)
		outcome = "lost"
	}
	s.metrics.tests.WithLabelValues(direction, outcome).Inc()
	s.metrics.bytes.WithLabelValues(direction).Add(float64(result.Quality.Payload))
}

// admit starts a test if the gate and the store allow it.
func (s *Server) admit(client netip.Addr) (release func(), concurrent int, rejection *admission.Rejection) {
	release, concurrent, rejection = s.gate.Admit(client)
	admitter, is := s.config.Store.(record.Admitter)
	if rejection != nil || !is {
		return release, concurrent, rejection
	}
	free, err := admitter.Admit()
	if err != nil {
		release()
		return nil, 0, storeRejection(err)
	}
	end := release
	return func() { free(); end() }, concurrent, nil
}

func storeRejection(err error) *admission.Rejection {
	return &admission.Rejection{Kind: "store", Detail: err.Error(), RetryAfter: time.Minute}
}

// parseQuery returns the metadata of a client, in order, and early_exit in bytes.
func parseQuery(raw string) (metadata []record.NameValue, exit uint64, err error) {
	if len(raw) > ndt7.MaxQuery {
		return nil, 0, fmt.Errorf("it has %d bytes, more than %d", len(raw), ndt7.MaxQuery)
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, 0, err
	}
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		value := values[name][0] // the first one of duplicates
		if name == "early_exit" {
			if value != "250" {
				return nil, 0, fmt.Errorf("early_exit=%s is not supported; the only value is 250 (MB)", strconv.Quote(value))
			}
			exit = 250e6
		}
		if strings.HasPrefix(name, "server_") {
			continue // reserved for the server
		}
		metadata = append(metadata, record.NameValue{Name: strings.ToValidUTF8(name, "�"), Value: strings.ToValidUTF8(value, "�")})
	}
	return metadata, exit, nil
}
