// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"time"

	"weir/measure/admission"
	"weir/measure/latency"
	"weir/measure/msak"
	"weir/measure/record"
	"weir/measure/socket"
)

// latencyShare is the number of latency tests for each bulk test: one sends 40 datagrams a second,
// and keeps its result for a minute.
const latencyShare = 10

// latencySpace is the space in bytes of the record of a latency test: 500 datagrams at most.
const latencySpace = 32 << 10

// httpSchemes are the schemes of requests in clear and over TLS.
var httpSchemes = [2]string{"http", "https"}

// openLatency opens the UDP socket of latency tests.
func (s *Server) openLatency() error {
	conn, err := listenUDP("--latency-listen", s.config.Latency)
	if err != nil {
		return err
	}
	s.latencyGate = admission.New(latencyShare * s.config.MaxTests)
	o := latency.Options{
		Gate: s.latencyGate, Version: s.config.Version, Commit: s.config.Commit, Duration: s.config.TestDuration, Grace: s.config.TestDuration,
		Count: func(result string) { s.metrics.datagrams.WithLabelValues(result).Inc() },
		Store: s.storeLatency,
	}
	if admitter, is := s.config.Store.(record.Admitter); is {
		o.Admit = func() (func(), error) { return admitter.Admit(latencySpace) }
	}
	if s.latency, err = latency.New(conn, o); err != nil {
		return errors.Join(err, conn.Close())
	}
	s.udp = conn
	return nil
}

func (s *Server) storeLatency(r *record.Latency, outcome string) error {
	err := s.store("latency1", r.UUID, r.StartTime, r, nil)
	switch {
	case err != nil:
		s.config.Log.Error("the record of a test is lost", "uuid", r.UUID, "reason", err)
		outcome = "lost"
	case outcome != "complete" && outcome != "short":
		outcome = "failed"
	}
	s.metrics.tests.WithLabelValues("latency1", "application", outcome).Inc()
	return err
}

// latencyKey identifies a latency test.
type latencyKey struct {
	id     string
	client netip.Addr
}

// latencyRequest returns the measurement ID and address of a request; false after it answered with
// a problem.
func (s *Server) latencyRequest(w http.ResponseWriter, r *http.Request) (request latencyKey, ok bool) {
	id, ok := s.authorized(w, r, protocolMSAK.experiment)
	if !ok {
		return request, false
	}
	id, err := msak.ParseID(cmp.Or(id, r.URL.Query().Get("mid")))
	if err != nil {
		newProblem(http.StatusBadRequest, "The query string is not valid", err.Error()).write(w)
		return request, false
	}
	client, err := clientOf(r)
	if err != nil {
		newProblem(http.StatusInternalServerError, "The client's address is not known", err.Error()).write(w)
		return request, false
	}
	return latencyKey{id, client}, true
}

// authorize opens a latency test for the client's address.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	k, ok := s.latencyRequest(w, r)
	if !ok {
		return
	}
	conn, _ := r.Context().Value(connection{}).(net.Conn)
	sock, err := socket.Of(conn)
	uuid := ""
	if err == nil {
		uuid, err = sock.UUID()
	}
	if err != nil {
		newProblem(http.StatusInternalServerError, "The server cannot measure this connection", err.Error()).write(w)
		return
	}
	first, err := s.latency.Authorize(k.id, k.client, uuid)
	var rejection *admission.Rejection
	switch {
	case errors.As(err, &rejection):
		s.refuse(w, rejection)
	case errors.Is(err, latency.ErrNoSpace):
		s.refuse(w, storeRejection(err))
	case err != nil:
		newProblem(http.StatusConflict, "The measurement is not new", err.Error()).write(w)
	default:
		w.Header().Set("Connection", "close") // the UUID is the connection's: one test each
		writeJSON(w, http.StatusOK, first)
	}
}

// result answers with the result of a latency test, once.
func (s *Server) result(w http.ResponseWriter, r *http.Request) {
	k, ok := s.latencyRequest(w, r)
	if !ok {
		return
	}
	// The answer may wait for the record.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(storeTime + idleTime))
	ctx, cancel := context.WithTimeout(r.Context(), storeTime)
	defer cancel()
	summary, err := s.latency.Result(ctx, k.id, k.client)
	switch {
	case errors.Is(err, latency.ErrUnknown):
		newProblem(http.StatusNotFound, "There is no such result", err.Error()).write(w)
	case err != nil:
		newProblem(http.StatusInternalServerError, "The record of the test could not be stored", "try again later, or use another server").write(w)
	default:
		writeJSON(w, http.StatusOK, summary)
	}
}

// refuse counts and answers a refused test.
func (s *Server) refuse(w http.ResponseWriter, r *admission.Rejection) {
	s.metrics.refused.WithLabelValues(r.Kind).Inc()
	refuse(w, r).write(w)
}
