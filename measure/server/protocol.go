// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/measure/msak"
	"weir/measure/ndt7"
	"weir/measure/record"
	"weir/measure/session"
)

// protocol is a kind of bulk test over WebSocket.
type protocol struct {
	name        string // a label of metrics
	experiment  string // of Measurement Lab; the subject of access tokens
	subprotocol string
	// parse returns the test that a query string requests; the error is a reason for people. id is
	// that of the access token, "" without one.
	parse func(s *Server, query, id string) (request, error)
}

// request is a requested test.
type request struct {
	length     time.Duration // at most
	congestion string        // "" for the site's default
	// run serves the test; lost is the reason why its records are not durable.
	run func(session.Test) (q *record.Quality, lost error)
}

var protocolNDT7 = protocol{"ndt7", "ndt", ndt7.Subprotocol, func(s *Server, query, _ string) (request, error) {
	metadata, exit, err := parseQuery(query)
	return request{length: ndt7.MaxDuration, run: func(t session.Test) (*record.Quality, error) {
		t.EarlyExit = exit
		// ndt7's records cannot name the congestion control: BBRInfo is always there.
		control := []record.NameValue{{Name: "congestion_control", Value: t.Socket.Congestion()}}
		result := ndt7.Serve(s.tests, ndt7.Test{
			Test: t, ClientMetadata: metadata, ServerMetadata: control, Version: s.config.Version, Commit: s.config.Commit,
		}, func(n *record.NDT7, q *record.Quality) error { return s.store("ndt7", t.UUID, n.StartTime, n, q) })
		return result.Quality, result.StoreError
	}}, err
}}

var protocolMSAK = protocol{"throughput1", "msak", msak.Subprotocol, func(s *Server, query, id string) (request, error) {
	o, err := msak.ParseOptions(query, id)
	return request{length: o.Duration + session.CloseTime, congestion: o.Congestion, run: func(t session.Test) (*record.Quality, error) {
		result := msak.Serve(s.tests, msak.Stream{Test: t, Options: o, Version: s.config.Version, Commit: s.config.Commit},
			func(v *record.Throughput, q *record.Quality) error {
				return s.store("throughput1", t.UUID, v.StartTime, v, q)
			})
		return result.Quality, result.StoreError
	}}, err
}}

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
