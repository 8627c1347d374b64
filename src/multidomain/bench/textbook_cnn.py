"""The CNN in torch's own modules: padded mini-batches, dense convolutions, dense gradients of word vectors."""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from multidomain.nn.extractors.cnn import CNNExtractor
from multidomain.training.sampling import DomainStream


class PaddedStream:
    """The mini-batches of a `DomainStream`: one batch of token ids per domain, padded to the longest document."""

    def __init__(self, stream: DomainStream, matrix: csr_matrix, y: np.ndarray | None):
        self._stream = stream
        self._padding = matrix.shape[1]
        words = torch.from_numpy(matrix.indices.astype(np.int64))
        self._documents = [words[a:b] for a, b in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)]
        self._y = None if y is None else torch.from_numpy(y)

    def sample(self) -> list[tuple[Tensor, Tensor | None]]:
        batch = []
        for of_domain in self._stream.next_rows()[0]:
            x = pad_sequence([self._documents[i] for i in of_domain], batch_first=True, padding_value=self._padding)
            batch.append((x, None if self._y is None else self._y[torch.from_numpy(of_domain)]))
        return batch


class TextbookCNN(nn.Module):
    """One copy of a `CNNExtractor`; reads padded token ids, shape (documents, longest)."""

    def __init__(self, extractor: CNNExtractor, copy: int):
        super().__init__()
        n, dimension = extractor.n_inputs, extractor.vectors.shape[1]
        self.padding = n
        self.embedding = nn.Embedding(n + 1, dimension, padding_idx=n)
        filters = extractor.filters.shape[2]
        self.convolutions = [nn.Conv1d(dimension, filters, size) for size in extractor.sizes]
        self.registered = nn.ModuleList(self.convolutions)
        width, n_outputs = extractor.weight.shape[1:]
        self.dropout, self.linear = nn.Dropout(extractor.dropout), nn.Linear(width, n_outputs)
        self.to(extractor.vectors.dtype)
        with torch.no_grad():
            self.embedding.weight[:n] = extractor.vectors[copy * n : (copy + 1) * n]
            position = 0
            for place, convolution in enumerate(self.convolutions):
                size = convolution.kernel_size[0]
                convolution.weight.copy_(extractor.filters[copy, position : position + size].permute(1, 2, 0))
                assert convolution.bias is not None
                convolution.bias.copy_(extractor.filter_bias[copy, 0, place * filters : (place + 1) * filters])
                position += size
            self.linear.weight.copy_(extractor.weight[copy].T)
            self.linear.bias.copy_(extractor.bias[copy, 0])

    def forward(self, words: Tensor) -> Tensor:
        lengths = (words != self.padding).sum(dim=1)
        missing = max(c.kernel_size[0] for c in self.convolutions) - words.shape[1]
        if missing > 0:
            words = nn.functional.pad(words, (0, missing), value=self.padding)
        vectors = self.embedding(words).transpose(1, 2)  # (documents, dimension, longest)
        pooled = []
        for convolution in self.convolutions:
            responses = convolution(vectors)
            # Mask positions that reach into the padding; a document shorter than the kernel keeps its first position.
            last = (lengths - convolution.kernel_size[0]).clamp(min=0)
            beyond = torch.arange(responses.shape[2]) > last[:, None]
            pooled.append(responses.masked_fill(beyond[:, None], -torch.inf).max(dim=2).values)
        return self.linear(self.dropout(torch.cat(pooled, dim=1).relu())).relu()

    @staticmethod
    def stacked(copies: list[TextbookCNN]) -> dict[str, Tensor]:
        """Return the weights of all copies under the names and in the shapes of a `CNNExtractor`."""
        biases = [torch.cat([f.state_dict()["bias"] for f in c.convolutions]) for c in copies]
        return {
            "vectors": torch.cat([c.embedding.weight.detach()[:-1] for c in copies]),
            "filters": torch.stack([torch.cat([f.weight.permute(2, 0, 1) for f in c.convolutions]) for c in copies]),
            "filter_bias": torch.stack(biases)[:, None],
            "weight": torch.stack([c.linear.weight.detach().T for c in copies]),
            "bias": torch.stack([c.linear.bias.detach()[None] for c in copies]),
        }
