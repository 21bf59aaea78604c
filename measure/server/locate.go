// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"weir/measure/admission"
	"weir/measure/ndt7"
	"weir/measure/record"
)

// target is a server in the answer of /v2/nearest, in the form of Measurement Lab's Locate API.
type target struct {
	Machine  string            `json:"machine"`
	Hostname string            `json:"hostname"`
	URLs     map[string]string `json:"urls"`
}

// bulkSchemes are the schemes of clear tests and of tests over TLS.
var bulkSchemes = [2]string{"ws", "wss"}

// nearest answers /v2/nearest/EXPERIMENT/DATATYPE with this server's paths. A browser cannot read
// the rejection of an upgrade, so that clients learn it here: status 429 with Retry-After, and the
// problem document as the member "error".
func (s *Server) nearest(gate *admission.Gate, schemes [2]string, paths ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		client, err := clientOf(r)
		if err != nil {
			newProblem(http.StatusInternalServerError, "The client's address is not known", err.Error()).write(w)
			return
		}
		if rejection := s.check(gate, client); rejection != nil {
			s.metrics.refused.WithLabelValues(rejection.Kind).Inc()
			writeJSON(w, http.StatusTooManyRequests, map[string]problem{"error": refuse(w, rejection)})
			return
		}
		if len(r.URL.RawQuery) > ndt7.MaxQuery {
			p := newProblem(http.StatusBadRequest, "The query string is not valid", fmt.Sprintf("it is longer than %d bytes", ndt7.MaxQuery))
			writeJSON(w, p.Status, map[string]problem{"error": p})
			return
		}
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		name, _ := os.Hostname()
		t := target{Machine: name, Hostname: host, URLs: map[string]string{}}
		for i, listener := range []net.Listener{s.clear, s.secure} {
			if listener == nil {
				continue
			}
			for _, path := range paths {
				url := schemes[i] + "://" + hostPort(host, addrOf(listener).Port(), schemes[i]) + path
				if r.URL.RawQuery != "" {
					url += "?" + r.URL.RawQuery // metadata of the client
				}
				t.URLs[schemes[i]+"://"+path] = url
			}
		}
		writeJSON(w, http.StatusOK, map[string][]target{"results": {t}})
	}
}

// hostPort returns the authority of a URL, without the scheme's usual port. An IPv6 address may
// have its brackets or not.
func hostPort(host string, port uint16, scheme string) string {
	whole := net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(int(port)))
	if port == 80 && (scheme == "ws" || scheme == "http") || port == 443 && (scheme == "wss" || scheme == "https") {
		return strings.TrimSuffix(whole, ":"+strconv.Itoa(int(port)))
	}
	return whole
}

// check returns the reason why a test of the client at the gate would not start now, or nil.
func (s *Server) check(gate *admission.Gate, client netip.Addr) *admission.Rejection {
	if rejection := gate.Check(client); rejection != nil {
		return rejection
	}
	if admitter, is := s.config.Store.(record.Admitter); is {
		if err := admitter.Ready(); err != nil {
			return storeRejection(err)
		}
	}
	return nil
}

func clientOf(r *http.Request) (netip.Addr, error) {
	address, err := netip.ParseAddrPort(r.RemoteAddr)
	return address.Addr().Unmap(), err
}
