// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"sort"
	"testing"

	"weir/modules/offload/plan"
)

// zipf is traffic to routes in random order: the k-th gets a share proportional to k^-exponent.
type zipf struct {
	routes []netip.Prefix
	upTo   []float64 // cumulative shares
}

func newZipf(r *rand.Rand, routes []netip.Prefix, exponent float64) *zipf {
	z := &zipf{routes: make([]netip.Prefix, len(routes))}
	sum := 0.0
	for i, at := range r.Perm(len(routes)) {
		z.routes[i] = routes[at]
		sum += math.Pow(float64(i+1), -exponent)
		z.upTo = append(z.upTo, sum)
	}
	return z
}

func (z *zipf) part(i int) float64 {
	before := 0.0
	if i > 0 {
		before = z.upTo[i-1]
	}
	return (z.upTo[i] - before) / z.upTo[len(z.upTo)-1]
}

// sample draws packets, as many as the data plane keeps.
func (z *zipf) sample(r *rand.Rand) map[netip.Prefix]uint64 {
	counts := map[netip.Prefix]uint64{}
	for range 1 << 16 {
		x := r.Float64() * z.upTo[len(z.upTo)-1]
		counts[z.routes[min(sort.SearchFloat64s(z.upTo, x), len(z.routes)-1)]]++
	}
	return counts
}

// carried returns the share of traffic to chosen routes.
func (z *zipf) carried(p *plan.Planner) (sum float64) {
	for i, to := range z.routes {
		if p.Choice()[to] {
			sum += z.part(i)
		}
	}
	return sum
}

// BenchmarkOffloadChoice reports the share of a full table's traffic carried by a budget of routes,
// under the assumption of Zipf's law: with all packets counted and with the data plane's 65,536
// samples. It also reports the routes that change with other samples of the same traffic, with and
// without the former choice, and the CPU time of a choice.
func BenchmarkOffloadChoice(b *testing.B) {
	for _, exponent := range []float64{0.8, 1, 1.2} {
		for _, budget := range []int{100, 1000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("zipf=%g/budget=%d", exponent, budget), func(b *testing.B) {
				for range b.N {
					choose(b, exponent, budget)
				}
			})
		}
	}
}

func choose(b *testing.B, exponent float64, budget int) {
	b.Helper()
	s, routes, _ := paperRouter(b)
	r := rand.New(rand.NewPCG(5, 6))
	z := newZipf(r, routes, exponent)
	planner := func() *plan.Planner {
		p, err := plan.New(plan.Policy{From: []string{"lo"}, IPv4: true}, s)
		if err != nil {
			b.Fatal(err)
		}
		return p
	}
	all := map[netip.Prefix]uint64{}
	for i, to := range z.routes {
		all[to] = uint64(1e9 * z.part(i))
	}
	p := planner()
	before := spent(b)
	chosen := p.Choose(budget, all)
	b.ReportMetric((spent(b) - before).Seconds(), "choice-cpu-s")
	b.ReportMetric(100*z.carried(p), "%-by-all")
	b.ReportMetric(float64(chosen.Chosen), "routes")
	p = planner()
	p.Choose(budget, z.sample(r))
	fresh := planner()
	fresh.Choose(budget, z.sample(r))
	forgetful := 0
	for to := range fresh.Choice() {
		if !p.Choice()[to] {
			forgetful++
		}
	}
	changed := 0
	const rounds = 3
	for range rounds {
		was := p.Choice()
		p.Choose(budget, z.sample(r))
		for to := range p.Choice() {
			if !was[to] {
				changed++
			}
		}
	}
	b.ReportMetric(100*z.carried(p), "%-by-samples")
	b.ReportMetric(float64(changed)/rounds, "new-routes/round")
	b.ReportMetric(float64(forgetful), "new-routes-without-hysteresis")
}
