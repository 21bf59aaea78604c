// SPDX-License-Identifier: Apache-2.0

// Package metrics exposes the state of a fleet to Prometheus, as its leader sees it. Rates are in
// bytes per second.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"weir/modules/fleet/lead"
	"weir/modules/fleet/leader"
)

// Collector asks the leader at each scrape. Each server of a cluster gives the same values.
type Collector struct {
	// Ask returns the leader's answer to OpStatus. Its time is bounded.
	Ask func() (lead.Response, error)
}

// Descriptions of the metrics; docs/formats/metrics.md lists them.
var (
	hasLeader = describe("has_leader", "1 if a leader answers, else 0; then the other metrics are absent")
	epoch     = describe("epoch", "number of the leader's term, which rises with each new leader")

	limitRate       = describe("limit_rate_bytes_per_second", "rate of the shared limit", "limit")
	limitGranted    = describe("limit_granted_bytes_per_second", "sum of the granted rates", "limit")
	limitCommitted  = describe("limit_committed_bytes_per_second", "sum of the highest rates that hosts may use now", "limit")
	limitUsed       = describe("limit_used_bytes_per_second", "sum of the rates that hosts have reported", "limit")
	limitGuaranteed = describe("limit_guaranteed_bytes_per_second", "sum of the admitted guarantees", "limit")
	limitHosts      = describe("limit_hosts", "hosts in contact with the leader", "limit")

	hostContact    = describe("host_contact", "1 if the host is in contact with the leader, 0 if it has its guarantees only", "host")
	hostGranted    = describe("host_granted_bytes_per_second", "granted rate", "host", "claim", "limit")
	hostUsed       = describe("host_used_bytes_per_second", "rate that the host has reported", "host", "claim", "limit")
	hostGuaranteed = describe("host_guaranteed_bytes_per_second", "admitted guarantee", "host", "claim", "limit")
	hostRejected   = describe("host_guarantee_rejected", "1 if the guarantee of the host's policy does not fit into the limit, else 0", "host", "claim", "limit")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("weir_fleet_"+name, help, labels, nil)
}

// Describe lists no metric: which hosts exist depends on the scrape.
func (Collector) Describe(chan<- *prometheus.Desc) {}

// Collect asks the leader.
func (c Collector) Collect(to chan<- prometheus.Metric) {
	r, err := c.Ask()
	if err != nil || r.Status == nil {
		gauge(to, hasLeader, 0)
		return
	}
	gauge(to, hasLeader, 1)
	gauge(to, epoch, float64(r.Status.Epoch))
	for _, l := range r.Status.Limits {
		collectLimit(to, l)
	}
	contact := map[string]bool{}
	for _, h := range r.Status.Hosts {
		collectClaim(to, h)
		contact[h.Host] = contact[h.Host] || h.Contact
	}
	for host, is := range contact {
		gauge(to, hostContact, number(is), host)
	}
}

func collectLimit(to chan<- prometheus.Metric, l leader.LimitStatus) {
	gauge(to, limitRate, l.Rate/8, l.Name)
	gauge(to, limitGranted, l.Granted/8, l.Name)
	gauge(to, limitCommitted, l.Committed/8, l.Name)
	gauge(to, limitUsed, l.Used/8, l.Name)
	gauge(to, limitGuaranteed, l.Floors/8, l.Name)
	gauge(to, limitHosts, float64(l.Hosts), l.Name)
}

func collectClaim(to chan<- prometheus.Metric, h leader.HostStatus) {
	labels := []string{h.Host, h.Claim, h.Limit}
	gauge(to, hostGranted, h.Granted/8, labels...)
	gauge(to, hostUsed, h.Used/8, labels...)
	gauge(to, hostGuaranteed, h.Floor/8, labels...)
	gauge(to, hostRejected, number(h.Reason != ""), labels...)
}

// gauge sends a sample. A host chooses the names of its claims: text that is not UTF-8 is an
// invalid sample, which the handler reports.
func gauge(to chan<- prometheus.Metric, d *prometheus.Desc, value float64, labels ...string) {
	m, err := prometheus.NewConstMetric(d, prometheus.GaugeValue, value, labels...)
	if err != nil {
		m = prometheus.NewInvalidMetric(d, err)
	}
	to <- m
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
