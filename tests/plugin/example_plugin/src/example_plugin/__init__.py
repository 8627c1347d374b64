"""What another package brings to multidomain: a method and a corpus."""
