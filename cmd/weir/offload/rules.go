// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"fmt"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/internal/fault"
	"weir/modules/offload"
	"weir/record"
)

func newRulesCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "rules",
		Short: "List the active tc flower rules, and those in the NIC",
		Long: `List the active tc flower rules as the kernel reports them: match and action, whether
the NIC executes the rule (in_hw), and packets and bytes. In software, rules of routes
with the same chain share their counters. XDP has no rules: "weir offload plan --rules"
lists its decisions.`,
		Example: `  sudo weir offload rules
  sudo weir offload rules --format json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			e, err := a.Engine()
			if err != nil {
				return err
			}
			rules, err := offload.Filters(nil, offload.Pins(e.PinDir))
			if err != nil {
				return fault.Wrap(err, fault.Failed, "apply a policy with offload: {backend: flower} or {backend: hardware}: weir apply, or weir daemon")
			}
			if a.Format == "json" {
				return a.JSON(struct {
					Format string           `json:"format"`
					Rules  []offload.Filter `json:"rules"`
				}{"weir-offload-rules/1", rules})
			}
			table := record.Table{Title: "Rules of tc flower", Columns: []string{"device", "chain", "priority", "handle", "to", "does", "in_hw", "packets"}}
			for _, r := range rules {
				packets := fmt.Sprint(r.Packets)
				if r.Shared {
					packets += " together"
				}
				table.Rows = append(table.Rows, []string{r.Device, fmt.Sprint(r.Chain), fmt.Sprint(r.Priority), fmt.Sprintf("%#x", r.Handle), r.To, r.Does, fmt.Sprint(r.InHW), packets})
			}
			return a.Table(table)
		},
	}
}
