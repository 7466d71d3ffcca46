// Package terminal writes texts of unknown origin to terminals. A name or a message from the network may have control
// characters that move the cursor or hide other text, and [Stream] escapes them.
//
// [New] makes the stream of a command, [SetColor] applies --color to it, and [Paint] writes in a style. [OneLine]
// escapes a text that belongs in one line, and [Problem] folds a long one. [Of] and [Width] describe the terminal behind a
// stream. A Stream may be used concurrently after SetColor.
package terminal
