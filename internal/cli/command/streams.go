package command

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/platform/inputfile"
	"github.com/weirkeeper/weirkeeper/internal/platform/spelling"
	"github.com/weirkeeper/weirkeeper/internal/platform/terminal"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
)

// OutputFlag gives a command --output: table, json or yaml.
func (r *Root) OutputFlag(cmd *cobra.Command) {
	r.FormFlag(cmd, FormTable, FormJSON, FormYAML)
}

// NamesFlag is OutputFlag with the form "name". names returns the names of the things in a value that the command
// passes to PrintJSON.
func (r *Root) NamesFlag(cmd *cobra.Command, names func(value any) []string) {
	r.FormFlag(cmd, FormTable, FormJSON, FormYAML, formName)
	inner := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r.names = names
		return inner(cmd, args)
	}
}

// FormFlag gives a command --output with these forms, of which the first is the default. "wide" is another word for a table,
// which has all columns, and --json one for "--output json". The command prints tables if
// Output is "table". In any other form it passes its data to PrintJSON; Output is "json" then.
func (r *Root) FormFlag(cmd *cobra.Command, forms ...string) {
	last := len(forms) - 1
	want := strings.Join(forms[:last], ", ") + " or " + forms[last]
	cmd.Flags().StringVarP(&r.Form, "output", "o", forms[0], want)
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(forms, cobra.ShellCompDirectiveNoFileComp)) // fails only without the flag
	asJSON := new(bool)
	if slices.Contains(forms, FormJSON) {
		cmd.Flags().BoolVar(asJSON, "json", false, "the same as --output json")
		_ = cmd.Flags().MarkHidden("json") // fails only without the flag
	}
	inner := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case *asJSON && cmd.Flags().Changed("output") && r.Form != FormJSON:
			return usage.New(fmt.Errorf("--json and --output %s are given: give one of them", r.Form))
		case *asJSON:
			r.Form = FormJSON
		case !cmd.Flags().Changed("output"): // all commands share r.Form
			r.Form = forms[0]
		case r.Form == formWide && slices.Contains(forms, FormTable):
			r.Form = FormTable
		}
		if !slices.Contains(forms, r.Form) {
			return usage.New(fmt.Errorf("--output %q: want %s%s", r.Form, want, spelling.DidYouMean(r.Form, forms)))
		}
		r.Output = FormTable
		if r.Form != FormTable {
			r.Output = FormJSON
		}
		return inner(cmd, args)
	}
}

// PrintJSON prints a value in the form of --output: as JSON, as YAML, or the names in it.
func (r *Root) PrintJSON(v any) error {
	if r.Form != formName {
		return encode(r.Stdout, r.Form, v)
	}
	for _, name := range r.names(v) {
		if _, err := fmt.Fprintln(r.Stdout, terminal.OneLine(name)); err != nil {
			return err
		}
	}
	return nil
}

// PrintNext prints one value of a stream: a line of JSON, or a YAML document.
func (r *Root) PrintNext(v any) error { return EncodeNext(r.Stdout, r.Form, v) }

// EachName returns a function for NamesFlag: the name of each element of a list of T.
func EachName[T any](name func(T) string) func(any) []string {
	return func(value any) (names []string) {
		list, _ := value.([]T)
		for _, one := range list {
			names = append(names, name(one))
		}
		return names
	}
}

// PrintTable prints rows for people. The first cell of a row is one word. Without rows it prints NoResources.
func (r *Root) PrintTable(header []string, rows [][]string) {
	printTable(r.Stdout, header, rows)
}

// Input opens the file that an argument names. Without one, or for "-", it is standard input. The caller closes it.
func (r *Root) Input(argument ...string) (io.ReadCloser, error) {
	if len(argument) == 0 || argument[0] == "-" {
		return io.NopCloser(r.Stdin), nil
	}
	f, err := inputfile.Open(argument[0])
	if err != nil {
		return nil, usage.New(err)
	}
	return f, nil
}

// ReadInput returns the content of a file, or of standard input for "-", and its name for errors. Of more than most bytes it
// returns the first most+1.
func (r *Root) ReadInput(path string, most int) (name string, data []byte, err error) {
	if path == "-" {
		data, err = io.ReadAll(io.LimitReader(r.Stdin, int64(most)+1))
	} else {
		data, err = inputfile.Read(path, most)
	}
	return InputName(path), data, err
}

// InputName returns the name for errors of a file: stdin for "-".
func InputName(path string) string {
	if path == "-" {
		return "stdin"
	}
	return path
}
