package decide
