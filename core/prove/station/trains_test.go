// SPDX-License-Identifier: Apache-2.0

package station

import (
	"testing"
)

// Each datagram of a train is reported with its number, class and both times; the next train starts
// empty.
func TestTrainsAreToldOneByOne(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		server := serve(t, address, "secret")
		p := Peer{Control: server.Addr(), Target: server.Addr(), Token: "secret"}
		s, err := Join(t.Context(), p, Flow{Protocol: Trains, Connections: 1, Rate: 1}, 1)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			sent, came, err := s.Train(t.Context(), 2e6, 20, func() bool { return false })
			if err != nil || sent != 20 || len(came) != 20 {
				t.Fatalf("%s: %d of %d arrived, %v", address, len(came), sent, err)
			}
			for i, a := range came {
				if a.Number != uint32(i) || a.Came < a.Sent {
					t.Errorf("%s: datagram %d: %+v", address, i, a)
				}
			}
		}
		if sent, _, err := s.Train(t.Context(), 2e6, 20, func() bool { return true }); err != nil || sent != 0 {
			t.Errorf("%s: enough from the beginning, and %d were sent, %v", address, sent, err)
		}
		if err := s.far.to.Encode(command{Do: "stop"}); err != nil {
			t.Fatal(err)
		}
		last, err := s.far.next(t.Context(), "stopped")
		if err != nil || last.DSCPs[1] != 40 {
			t.Errorf("%s: arrived by class: %v, %v; want 40 as LE", address, last.DSCPs, err)
		}
		s.Close()
	}
}
