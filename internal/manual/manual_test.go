package manual

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

func tree() (root, list *cobra.Command) {
	root = &cobra.Command{Use: "weir", Short: "Scale pools"}
	run := func(*cobra.Command, []string) {}
	list = &cobra.Command{
		Use: "list [POOL]", Short: "List pools", Example: "  weir list\n  weir list web", Run: run,
		Long: "List pools.\n'quoted' first, a \\ and a -dash.\n\n  .indented\n\nThe end.",
	}
	list.Flags().StringP("output", "o", "table", "form of `FORM`")
	root.PersistentFlags().Bool("quiet", false, "print less")
	root.AddCommand(list, &cobra.Command{Use: "keep", Hidden: true, Run: run})
	return root, list
}

func TestPage(t *testing.T) {
	_, list := tree()
	want := `.TH "WEIR\-LIST" 1 "" "weir v1.2.3" "Weirkeeper"
.nh
.ad l
.SH NAME
weir\-list \- List pools
.SH "SYNOPSIS"
.nf
weir list [POOL] [flags]
.fi
.SH DESCRIPTION
List pools.
\&'quoted' first, a \e and a \-dash.
.PP
.nf
  .indented
.PP
.fi
The end.
.SH "OPTIONS"
.TP
\fB\-o\fR, \fB\-\-output\fR FORM
form of FORM (default table)
.SH "OPTIONS OF ALL COMMANDS"
.TP
\fB\-\-quiet\fR 
print less
.SH "EXAMPLES"
.nf
  weir list
  weir list web
.fi
.SH SEE ALSO
.BR weir (1)
`
	if diff := cmp.Diff(want, string(Page(list, "v1.2.3"))); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
}

func TestWriteSkipsHiddenCommands(t *testing.T) {
	root, _ := tree()
	folder := filepath.Join(t.TempDir(), "man1")
	if err := Write(root, "v1", folder); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(folder)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if diff := cmp.Diff([]string{"weir-list.1", "weir.1"}, names); diff != "" || err != nil {
		t.Errorf("pages (-want +got):\n%s %v", diff, err)
	}
	if err := Write(root, "v1", filepath.Join(folder, "weir.1")); err == nil {
		t.Error("Write into a file = nil, want an error")
	}
}
