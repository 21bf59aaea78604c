// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/netip"
	"time"

	"weir/measure/admission"
	"weir/measure/record"
	"weir/measure/session"
	"weir/measure/socket"
	"weir/measure/websocket"
)

// connection is the key of the accepted connection in a request's context.
type connection struct{}

// runTest is the handler of a bulk test.
func (s *Server) runTest(p protocol, direction record.Direction) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if reason := websocket.CheckUpgrade(r, p.subprotocol); reason != "" {
			newProblem(http.StatusBadRequest, "The request is no "+p.name+" test", reason).write(w)
			return
		}
		id, ok := s.authorized(w, r, p.experiment)
		if !ok {
			return
		}
		request, err := p.parse(s, r.URL.RawQuery, id)
		if err != nil {
			newProblem(http.StatusBadRequest, "The query string is not valid", err.Error()).write(w)
			return
		}
		client, _ := clientOf(r)
		release, concurrent, rejection := s.admit(client, request.length)
		if rejection != nil {
			s.metrics.refused.WithLabelValues(rejection.Kind).Inc()
			refuse(w, rejection).write(w)
			return
		}
		defer release()
		t := session.Test{Sampler: &s.sampler, Direction: direction, Concurrent: concurrent, TLS: r.TLS != nil, Duration: s.config.TestDuration, Silence: s.config.TestSilence}
		conn, _ := r.Context().Value(connection{}).(net.Conn)
		if err := s.prepare(&t, conn, cmp.Or(request.congestion, s.config.Congestion)); err != nil {
			s.config.Log.Error("cannot measure a connection", "client", r.RemoteAddr, "reason", err)
			newProblem(http.StatusInternalServerError, "The server cannot measure this connection", err.Error()).write(w)
			return
		}
		if t.Conn, err = websocket.Upgrade(w, r, p.subprotocol, session.Limits); err != nil {
			s.metrics.tests.WithLabelValues(p.name, string(direction), "handshake").Inc()
			return
		}
		running := s.metrics.running.WithLabelValues(p.name, string(direction))
		running.Inc()
		defer running.Dec()
		s.count(request.run(t))
	}
}

// prepare sets the socket's options and names the connection.
func (s *Server) prepare(t *session.Test, conn net.Conn, control string) (err error) {
	if t.Socket, err = socket.Of(conn); err != nil {
		return err
	}
	if t.UUID, err = t.Socket.UUID(); err != nil {
		return err
	}
	t.Accepted, t.Base = acceptTime(conn), t.Socket.Counters()
	if control != "" {
		t.Congestion = control
		if err := t.Socket.SetCongestion(control); err != nil {
			t.CongestionError = err.Error()
		}
	}
	return nil
}

// store makes the records of a test durable.
func (s *Server) store(datatype, uuid string, started time.Time, v any, q *record.Quality) error {
	// A stopping server still stores the records of its tests.
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	start := time.Now()
	var err error
	if q != nil { // first: alone it counts as no test
		err = s.config.Store.Store(ctx, "quality1", uuid, q.StartTime, q)
	}
	if err == nil {
		err = s.config.Store.Store(ctx, datatype, uuid, started, v)
	}
	s.metrics.stored.Observe(time.Since(start).Seconds())
	return err
}

// count logs and counts the outcome of a test.
func (s *Server) count(q *record.Quality, lost error) {
	outcome := q.Outcome
	if outcome != "complete" && outcome != "short" {
		s.config.Log.Info("a test failed", "uuid", q.UUID, "protocol", q.Protocol, "direction", q.Direction, "reason", outcome)
		outcome = "failed"
	}
	if lost != nil {
		s.config.Log.Error("the record of a test is lost", "uuid", q.UUID, "reason", lost)
		outcome = "lost"
	}
	s.metrics.tests.WithLabelValues(q.Protocol, string(q.Direction), outcome).Inc()
	s.metrics.bytes.WithLabelValues(q.Protocol, string(q.Direction)).Add(float64(q.Payload))
}

// bulkSpace is the space in bytes of the records of a bulk test. The longest stream leaves at most
// 0.9 MB of measurements and 0.2 MB of samples; session.MaxKept bounds the client's part.
const bulkSpace = 1280 << 10

// admit starts a test if the gate and the store allow it.
func (s *Server) admit(client netip.Addr, length time.Duration) (release func(), concurrent int, rejection *admission.Rejection) {
	release, concurrent, rejection = s.gate.Admit(client, length)
	admitter, is := s.config.Store.(record.Admitter)
	if rejection != nil || !is {
		return release, concurrent, rejection
	}
	free, err := admitter.Admit(bulkSpace)
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
