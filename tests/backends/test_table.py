import pytest
import torch

from specproof.backends.table import TableBackend, TableModel
from specproof.errors import SpecproofError
from specproof.testing.conformance import check_backend


def test_the_table_backend_conforms():
    check_backend(TableBackend(TableModel.random(3, 3, torch.Generator().manual_seed(0), zeros=0.2)))


def test_rows_are_found_by_the_last_tokens():
    model = TableModel.random(3, 2, torch.Generator().manual_seed(0))
    assert torch.equal(model.row([]), model.levels[0][0])
    assert torch.equal(model.row([2]), model.levels[1][2])
    assert torch.equal(model.row([0, 1, 2, 1]), model.levels[2][7])


@pytest.mark.parametrize("row", [[0.5, 0.4], [1.5, -0.5]])
def test_rows_have_to_be_distributions(row):
    with pytest.raises(SpecproofError, match="does not sum to 1"):
        TableModel.constant(row)


def test_levels_have_to_fit_the_vocabulary():
    with pytest.raises(SpecproofError, match="table level 1"):
        TableModel((torch.ones(1, 2).double() / 2, torch.ones(3, 2).double() / 2))
