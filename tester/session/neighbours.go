// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"

	"weir/tester/neighbour"
)

// answer makes every local port answer for the addresses of its streams. The run's own MAC
// addresses are already resolved.
func (s *Session) answer() error {
	sets, ports := map[string]*neighbour.Set{}, map[string]Port{}
	for _, d := range s.config.Directions {
		for _, end := range []struct {
			port Port
			end  neighbour.End
		}{{d.From, neighbour.Source}, {d.To, neighbour.Destination}} {
			if !end.port.Here() {
				continue
			}
			name := end.port.String()
			if sets[name] == nil {
				sets[name], ports[name] = &neighbour.Set{}, end.port
			}
			for _, stream := range d.Schedule.Streams {
				sets[name].Add(stream, end.end)
			}
		}
	}
	for name, set := range sets {
		if set.Empty() {
			continue
		}
		responder, err := neighbour.Open(ports[name].Namespace, ports[name].Device, *set)
		if err != nil {
			return err
		}
		s.responders = append(s.responders, responder)
	}
	return nil
}

// neighbours returns the requests received by the ports; nil without any.
func (s *Session) neighbours() *neighbour.Counts {
	var all []*neighbour.Counts
	for _, r := range s.responders {
		counts := r.Counts()
		all = append(all, &counts)
	}
	return neighbour.Sum(all...)
}

// neighbourRemarks reports losses that neighbour resolution may have caused.
func (a Account) neighbourRemarks() []string {
	n := a.Neighbours
	if n == nil {
		return nil
	}
	var notes []string
	if asked := n.ARP + n.ND; asked > 0 {
		notes = append(notes, fmt.Sprintf("the ports answered %d ARP requests and %d neighbour solicitations for addresses of the streams: frames that a device dropped while it asked are among the lost", n.ARP, n.ND))
	}
	if n.Beyond > 0 {
		notes = append(notes, fmt.Sprintf("%d requests for addresses of the streams came faster than %d a second and were not answered: use fewer addresses, or let the device learn them in a run before", n.Beyond, neighbour.Rate))
	}
	if n.Unsent > 0 {
		notes = append(notes, fmt.Sprintf("the devices did not take %d answers to ARP requests and neighbour solicitations", n.Unsent))
	}
	return notes
}
