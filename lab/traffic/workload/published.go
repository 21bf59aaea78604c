// SPDX-License-Identifier: Apache-2.0

package workload

// Names of the distributions that are built in.
const (
	WebSearch  = "web-search"
	DataMining = "data-mining"
)

// Published returns the distributions that are built in: two clusters' flow sizes, by the points at
// which simulations have read the papers' figures ever since. Their means are 1.71 and 12.66 MB.
//
//   - web-search: Alizadeh et al., Data Center TCP (SIGCOMM 2010), figure 4
//   - data-mining: Greenberg et al., VL2: A Scalable and Flexible Data Center Network (SIGCOMM
//     2009), figure 2
func Published() []Sizes {
	return []Sizes{
		{Name: WebSearch, Points: []Point{
			{0, 0}, {10e3, 0.15}, {20e3, 0.2}, {30e3, 0.3}, {50e3, 0.4}, {80e3, 0.53}, {200e3, 0.6},
			{1e6, 0.7}, {2e6, 0.8}, {5e6, 0.9}, {10e6, 0.97}, {30e6, 1},
		}},
		{Name: DataMining, Points: []Point{
			{0, 0}, {180, 0.1}, {216, 0.2}, {560, 0.3}, {900, 0.4}, {1100, 0.5}, {1870, 0.6}, {3160, 0.7},
			{10e3, 0.8}, {400e3, 0.9}, {3.16e6, 0.95}, {100e6, 0.98}, {1e9, 1},
		}},
	}
}
