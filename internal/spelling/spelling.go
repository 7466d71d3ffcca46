// Package spelling tells how alike two names are written, so that who mistyped one
// can be told which was meant. It holds no state.
package spelling

// Distance is Levenshtein's: how many bytes must be put in, taken out or changed
// to make one name of the other.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
