// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"weir/modules/fleet/lead"
	"weir/modules/fleet/leader"
)

func scrape(answer lead.Response, err error) string {
	registry := prometheus.NewRegistry()
	registry.MustRegister(Collector{Ask: func() (lead.Response, error) { return answer, err }})
	got := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(got, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return got.Body.String()
}

var status = leader.Status{Epoch: 3, Limits: []leader.LimitStatus{{Name: "wan", Rate: 8e6, Granted: 4e6, Committed: 6e6, Used: 2e6, Floors: 1e6, Hosts: 1}},
	Hosts: []leader.HostStatus{
		{Host: "a", Claim: "x/egress", Limit: "wan", Contact: true, Granted: 4e6, Used: 2e6, Floor: 1e6},
		{Host: "b", Claim: "x\"\n/egress", Limit: "wan", Reason: "min 9 Mbit/s exceeds the rate"},
	}}

// docs/formats/metrics.md describes each metric by the text of its HELP line.
func TestTheDocumentListsAllMetrics(t *testing.T) {
	page, err := os.ReadFile("../../../docs/formats/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(`(?m)^# HELP (\S+) (.*)$`).FindAllStringSubmatch(scrape(lead.Response{Status: &status}, nil), -1)
	if len(all) == 0 {
		t.Fatal("no metrics")
	}
	for _, m := range all {
		if row := regexp.MustCompile("(?m)^\\| `" + m[1] + "` \\| gauge \\| .* \\| " + regexp.QuoteMeta(m[2]) + " \\|$"); !row.Match(page) {
			t.Errorf("no row for %s with %q", m[1], m[2])
		}
	}
}

func TestScrapes(t *testing.T) {
	for name, test := range map[string]struct {
		answer lead.Response
		err    error
		want   string
	}{
		"no leader":            {lead.Response{}, errors.New("fleet office has no leader now"), "weir_fleet_has_leader 0\n"},
		"answer without one":   {lead.Response{}, nil, "weir_fleet_has_leader 0\n"},
		"limits and hosts":     {lead.Response{Status: &status}, nil, "weir_fleet_has_leader 1\n"},
		"committed rate":       {lead.Response{Status: &status}, nil, "weir_fleet_limit_committed_bytes_per_second{limit=\"wan\"} 750000\n"},
		"contact":              {lead.Response{Status: &status}, nil, "weir_fleet_host_contact{host=\"a\"} 1\nweir_fleet_host_contact{host=\"b\"} 0\n"},
		"a host chooses names": {lead.Response{Status: &status}, nil, "weir_fleet_host_guarantee_rejected{claim=\"x\\\"\\n/egress\",host=\"b\",limit=\"wan\"} 1\nweir_fleet_host_guarantee_rejected{claim=\"x/egress\",host=\"a\",limit=\"wan\"} 0\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := scrape(test.answer, test.err); !strings.Contains(got, "\n"+test.want) {
				t.Errorf("%s\nwant\n%s", got, test.want)
			}
		})
	}
}
