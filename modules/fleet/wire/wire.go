// SPDX-License-Identifier: Apache-2.0

// Package wire defines the messages between the hosts of a fleet and its leader, as JSON. Rates are
// in bit/s.
//
// Each host sends reports, and the leader answers with grants. A grant names the report that it
// answers, and its lease counts from the moment that the host sent this report, on the host's
// monotonic clock. So a late grant ends early, and no clock needs to be synchronised.
package wire

import (
	"encoding/json"
	"fmt"
	"time"

	"weir/core/module"
)

const (
	// MaxClaims bounds the claims of one host, and maxName the length of names: all members are
	// saved as one document.
	MaxClaims = module.MaxSharedLimits
	maxName   = module.MaxSharedID
)

// Report is the state of one host.
type Report struct {
	Host   string  `json:"host"`
	Boot   uint64  `json:"boot"`   // rises with each start of the daemon
	Number uint64  `json:"number"` // from 1 with each boot
	Epoch  uint64  `json:"epoch"`  // highest epoch seen
	Grant  uint64  `json:"grant"`  // number of the last applied grant of this epoch; 0 for none
	Claims []Claim `json:"claims"`
}

// Claim is one direction of a scope that follows a shared limit.
type Claim struct {
	ID        string  `json:"id"`    // SCOPE/DIRECTION, unique on the host
	Limit     string  `json:"limit"` // name of the shared limit
	Min       float64 `json:"min"`   // requested guarantee
	Max       float64 `json:"max"`   // ceiling; 0 for the limit's rate
	Weight    int     `json:"weight"`
	Rate      float64 `json:"rate"`      // active rate
	Floor     float64 `json:"floor"`     // rate after the end of the lease
	Used      float64 `json:"used"`      // mean over the last interval
	Throttled bool    `json:"throttled"` // the scope delayed, marked or dropped packets in the interval
}

// Grant sets the rates of one host. A grant without rates announces the leader's epoch.
type Grant struct {
	Epoch  uint64        `json:"epoch"`
	Boot   uint64        `json:"boot"`   // of the answered report
	Answer uint64        `json:"answer"` // number of the answered report
	Number uint64        `json:"number"` // rises within epoch and boot
	Lease  time.Duration `json:"lease"`  // ns from the answered report on
	Rates  []Rate        `json:"rates"`
}

// Rate is the grant of one claim.
type Rate struct {
	ID     string  `json:"id"`
	Rate   float64 `json:"rate"`
	Floor  float64 `json:"floor"`            // admitted guarantee
	Reason string  `json:"reason,omitempty"` // why the floor is below the requested guarantee, or the rate 0
}

// ParseReport decodes and checks a report.
func ParseReport(data []byte) (r Report, err error) {
	if err := json.Unmarshal(data, &r); err != nil {
		return Report{}, fmt.Errorf("decode report: %w", err)
	}
	if !named(r.Host) || r.Boot == 0 || r.Number == 0 {
		return Report{}, fmt.Errorf("report lacks host, boot or number")
	}
	if len(r.Claims) > MaxClaims {
		return Report{}, fmt.Errorf("report of %s has %d claims, more than %d", r.Host, len(r.Claims), MaxClaims)
	}
	seen := make(map[string]bool, len(r.Claims))
	for _, c := range r.Claims {
		if !named(c.ID) || !named(c.Limit) || seen[c.ID] {
			return Report{}, fmt.Errorf("report of %s: claim %.40q: name missing, too long or twice", r.Host, c.ID)
		}
		seen[c.ID] = true
		for _, rate := range []float64{c.Min, c.Max, c.Rate, c.Floor, c.Used} {
			if rate < 0 || rate > maxRate { // JSON has no NaN and no infinity
				return Report{}, fmt.Errorf("report of %s: claim %s: rate %g is outside 0 to %g", r.Host, c.ID, rate, maxRate)
			}
		}
		if c.Weight < 0 || c.Weight > maxWeight {
			return Report{}, fmt.Errorf("report of %s: claim %s: weight %d is outside 0 to %d", r.Host, c.ID, c.Weight, maxWeight)
		}
	}
	return r, nil
}

// Bounds of reports. A nonsensical report must not spoil sums.
const (
	maxRate   = 1e15
	maxWeight = 1_000_000
)

// ParseGrant decodes and checks a grant.
func ParseGrant(data []byte) (g Grant, err error) {
	if err := json.Unmarshal(data, &g); err != nil {
		return Grant{}, fmt.Errorf("decode grant: %w", err)
	}
	if g.Epoch == 0 || g.Lease < 0 || g.Lease > time.Hour || len(g.Rates) > MaxClaims {
		return Grant{}, fmt.Errorf("grant has no epoch, an impossible lease or too many rates")
	}
	for _, r := range g.Rates {
		if r.Rate < 0 || r.Rate > maxRate || r.Floor < 0 || r.Floor > maxRate {
			return Grant{}, fmt.Errorf("grant of %.40q: rate %g or floor %g is outside 0 to %g", r.ID, r.Rate, r.Floor, maxRate)
		}
	}
	return g, nil
}

func named(s string) bool { return s != "" && len(s) <= maxName }
