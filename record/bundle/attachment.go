// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"fmt"
	"path/filepath"

	"weir/record"
)

// attachmentName returns the place of an attachment in the bundle.
func attachmentName(a record.Attachment) (string, error) {
	if !filepath.IsLocal(filepath.FromSlash(a.Name)) {
		return "", fmt.Errorf("attachment %q: it would lie outside the bundle", a.Name)
	}
	return filepath.Join(AttachmentsFolder, filepath.FromSlash(a.Name)), nil
}
