// SPDX-License-Identifier: Apache-2.0

package node

import (
	"testing"

	"weir/kernel/testutil"
)

func TestKernelErrorsKeepTheirCause(t *testing.T) { testutil.KernelErrors(t, programNeeds.Fault) }
