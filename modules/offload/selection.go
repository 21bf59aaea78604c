// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"net/netip"
	"time"

	"weir/modules/offload/flower"
	"weir/modules/offload/plan"
	"weir/modules/offload/sample"
	"weir/modules/offload/xdp"
)

// A new choice of routes follows every chooseEvery, from the samples of chooseOver, about as many
// as there are places.
const (
	chooseEvery = 15 * time.Second
	chooseOver  = 4 * chooseEvery
)

// traffic counts samples by the routes that they belong to.
func traffic(p *plan.Planner, destinations map[netip.Addr]uint64) map[netip.Prefix]uint64 {
	all := map[netip.Prefix]uint64{}
	for a, n := range destinations {
		all[p.Unit(a)] += n
	}
	return all
}

// counted returns the samples of the active backend; none without one.
func (p *hostPlane) counted() (map[netip.Addr]uint64, error) {
	for _, open := range []func(string) (sample.Sampler, error){xdp.Samples, flower.Samples} {
		s, err := open(p.host.Pins)
		if err != nil {
			return nil, err
		}
		defer s.Close()
		if s.On() {
			return s.Destinations()
		}
	}
	return nil, nil
}

// selection holds the time of the next choice, and the packet count at the last one.
type selection struct {
	last    time.Time
	packets uint64
}

// chooseAnew chooses for a new planner, and keeps the former choice if possible.
func (k *runner) chooseAnew(former *plan.Planner) error {
	if k.treatment.Budget == 0 {
		return nil
	}
	counted, err := k.plane.counted()
	if err != nil {
		return err
	}
	budget := k.treatment.Budget
	if former != nil {
		k.planner.Recall(former.Choice())
		budget = min(budget, former.Chosen().Budget) // learned capacity of the table
	}
	k.planner.Choose(budget, traffic(k.planner, counted))
	return nil
}

// chosen records the initial counters of a new table.
func (k *runner) chosen() (err error) {
	s := k.table.Samples()
	k.selection.last = time.Now()
	if k.selection.packets, err = s.Packets(); err != nil {
		return err
	}
	return s.Record(k.planner.Chosen(), 0)
}

// choose has the routes chosen again if it is time.
func (k *runner) choose(now time.Time) error {
	took := now.Sub(k.selection.last)
	if k.treatment.Budget == 0 || took < chooseEvery {
		return nil
	}
	return k.chooseNow(took)
}

func (k *runner) chooseNow(took time.Duration) error {
	s := k.table.Samples()
	destinations, err := s.Destinations()
	if err != nil {
		return err
	}
	if !s.On() {
		return nil // a NIC does not report the packets that it leaves
	}
	out := k.planner.Choose(k.planner.Chosen().Budget, traffic(k.planner, destinations))
	if len(out.Changed) > 0 {
		if err := k.write(out.Changed, nil); err != nil {
			return err
		}
	}
	before := k.selection.packets
	if err := k.chosen(); err != nil {
		return err
	}
	return s.Record(out, uint64(float64(k.selection.packets-before)*chooseOver.Seconds()/max(took, time.Second).Seconds()))
}
